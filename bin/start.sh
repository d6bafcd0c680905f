#!/bin/sh
# npm start: Node with the flags that bin/start.cjs explains. A file, because npm prints the command of a script at each start.
exec node --disable-sigusr1 --min-semi-space-size=16 --max-semi-space-size=16 "$(dirname "$0")/start.cjs"
