# Three members join one after the other, talk, and lose their coordinator. Then the group is cut
# in two, each side goes on, and the halves merge.
watch app
members A B C D sim.xml
say everybody sends, in the order of each sender
send A a1 a2
send B b1
advance 1s
say the coordinator crashes
crash A
advance 5s
say the network is cut
partition B | C D
advance 60s
send B alone
send C pair
advance 1s
heal
advance 60s
send D together
advance 1s
----
0.010 A view [A]|0
0.061 A view [A B]|1
0.061 B view [A B]|1
0.111 A view [A B C]|2
0.112 B view [A B C]|2
0.112 C view [A B C]|2
0.162 A view [A B C D]|3
0.162 B view [A B C D]|3
0.162 C view [A B C D]|3
0.162 D view [A B C D]|3
-- everybody sends, in the order of each sender
0.162 A deliver A: a1
0.162 A deliver A: a2
0.162 B deliver B: b1
0.163 B deliver A: a1
0.163 B deliver A: a2
0.163 C deliver A: a1
0.163 C deliver A: a2
0.163 D deliver A: a1
0.163 D deliver A: a2
0.163 A deliver B: b1
0.163 C deliver B: b1
0.163 D deliver B: b1
-- the coordinator crashes
1.162 A crash
1.240 B view [B C D]|4
1.240 C view [B C D]|4
1.240 D view [B C D]|4
-- the network is cut
6.162 network is cut: B | C D
49.349 B view [B]|5
51.594 C view [C D]|5
51.595 D view [C D]|5
66.162 B deliver B: alone
66.162 C deliver C: pair
66.163 D deliver C: pair
67.162 network is whole
70.414 C view [C D B]|6
70.414 B view [C D B]|6
70.414 D view [C D B]|6
127.162 D deliver D: together
127.163 B deliver D: together
127.163 C deliver D: together
