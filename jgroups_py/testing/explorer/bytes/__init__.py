"""Fuzzing: hostile bytes for every decoder and for whole simulated clusters.

    corpus.py    byte strings to begin with, made by our own encoders and by simulated clusters
    spots.py     the places of numbers, lengths and counts in a byte string, as decoders read them
    mutate.py    one byte string made into another
    cover.py     the lines of our code that an input reaches, in their order
    targets.py   the targets of attacks, and the one error that each may raise
    guard.py     one input: run, timed, its memory watched
    work.py      the task and the result of a chunk of inputs
    decoder.py   a chunk for a decoder
    cluster.py, attacks.py, stacks.py    whole clusters under attack; a chunk for them
    engine.py    chunks of all targets over all cores

The same seed gives the same inputs, on however many cores. ``jgroups-py dev fuzz`` is the command; design/fuzzing.md
tells why it is made this way.

May import: drill, testing.sim and the rooms below, and the lab.
Imported by: tools.
"""
