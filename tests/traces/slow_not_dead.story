# B stands still for three seconds. Others wonder, ask, and are answered: nobody may leave.
watch app FD_ALL3 VERIFY_SUSPECT2
members A B C sim.xml FD_ALL3.timeout=2s FD_ALL3.interval=500ms VERIFY_SUSPECT2.timeout=3s
pause B 3s
advance 10s
send B alive
advance 1s
----
0.010 A view [A]|0
0.061 A view [A B]|1
0.061 B view [A B]|1
0.112 A view [A B C]|2
0.112 B view [A B C]|2
0.112 C view [A B C]|2
0.112 B pause
2.230 C FD_ALL3 suspect members=[B]
2.230 C VERIFY_SUSPECT2 ask members=[B]
2.469 A FD_ALL3 suspect members=[B]
2.469 A VERIFY_SUSPECT2 ask members=[B]
3.112 B resume
3.113 A FD_ALL3 heard member=B
3.113 C FD_ALL3 heard member=B
10.112 B deliver B: alive
10.113 A deliver B: alive
10.113 C deliver B: alive
