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
0.112 A view [A B C]|2
0.112 B view [A B C]|2
0.112 C view [A B C]|2
0.163 A view [A B C D]|3
0.164 B view [A B C D]|3
0.164 C view [A B C D]|3
0.164 D view [A B C D]|3
-- everybody sends, in the order of each sender
0.164 A deliver A: a1
0.164 A deliver A: a2
0.164 B deliver B: b1
0.164 B deliver A: a1
0.164 B deliver A: a2
0.164 C deliver A: a1
0.164 C deliver A: a2
0.164 D deliver A: a1
0.164 D deliver A: a2
0.164 A deliver B: b1
0.164 C deliver B: b1
0.164 D deliver B: b1
-- the coordinator crashes
1.164 A crash
1.241 B view [B C D]|4
1.241 C view [B C D]|4
1.241 D view [B C D]|4
-- the network is cut
6.164 network is cut: B | C D
49.349 B view [B]|5
51.595 C view [C D]|5
51.595 D view [C D]|5
66.164 B deliver B: alone
66.164 C deliver C: pair
66.164 D deliver C: pair
67.164 network is whole
70.415 C view [C D B]|6
70.415 B view [C D B]|6
70.415 D view [C D B]|6
127.164 D deliver D: together
127.164 B deliver D: together
127.164 C deliver D: together
