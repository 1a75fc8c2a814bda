"""Long life: does anything grow in a group that lives for a day?

plan        churn drawn from a seed, in cycles that end in a calm moment
tables      every table of a member, found by walking its objects
samples     the figures measured at calm moments, and the comparison of two times
simulated   a day in virtual time       real    an hour with processes       strikes   their faults
plot        curves as SVG

May import: drill.run and the rooms below.
Imported by: tools.
"""
