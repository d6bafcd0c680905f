#!/bin/sh
# Makes the roles of the database, when its volume is new, and again whenever it is run. The passwords are in the environment of
# psql only: those of the container would be in `docker inspect`.
set -eu
export OWNER_PASSWORD SERVER_PASSWORD PGPASSWORD
OWNER_PASSWORD=$(cat /run/secrets/owner_password)
SERVER_PASSWORD=$(cat /run/secrets/server_password)
PGPASSWORD=$(cat /run/secrets/postgres_password)
exec psql --quiet --username=strongroom --dbname=strongroom --file=/strongroom/roles.sql
