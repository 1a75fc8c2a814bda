# B leaves, then the coordinator does. Each time the others get a view, and nobody is suspected.
watch app VERIFY_SUSPECT2
members A B C sim.xml
send B last words
leave B
advance 2s
leave A
advance 2s
send C alone
advance 1s
----
0.010 A view [A]|0
0.061 A view [A B]|1
0.061 B view [A B]|1
0.112 A view [A B C]|2
0.112 B view [A B C]|2
0.112 C view [A B C]|2
0.112 B deliver B: last
0.112 B deliver B: words
0.113 A deliver B: last
0.113 A deliver B: words
0.113 C deliver B: last
0.113 C deliver B: words
0.113 A view [A C]|3
0.113 C view [A C]|3
0.113 B leave
2.113 C view [C]|4
2.113 A leave
4.112 C deliver C: alone
