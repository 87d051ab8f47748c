#!/bin/sh
# Shows what the job was given, and writes two files of which the job's owner wants both, and one that nobody wants.
ls numbers.txt sort.sh
sort -n numbers.txt > sorted-up.txt
sort -rn numbers.txt > sorted-down.txt
echo "not asked for" > scratch.txt
