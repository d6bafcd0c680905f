#!/bin/sh
# The service `check` of docker-compose.yml, run in the directory of the clone. A vault in production mode was once started from
# there: a person who means that one must not get another, which is empty.
found=
grep -Eqs '^(POSTGRES_PASSWORD=|MASTER_KEY=|REQUIRE_SIGNED_ROWS=|# Written by setup)' .env && found=.env
[ -e secrets/master_key ] || [ -e secrets/server_database_url ] && found=secrets/
[ -z "$found" ] && exit 0
echo "This directory has $found of a vault in production mode, and docker-compose.yml is for local testing. Nothing was started." \
  "The compose file of production is in deploy/compose/: docs/operations/docker.md says how to move there." \
  "For local testing take another clone." >&2
exit 1
