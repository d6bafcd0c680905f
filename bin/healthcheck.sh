#!/bin/bash
# Exits 0 when the server of this container serves requests. The shell opens the connection itself: a process of Node every few
# seconds takes more of the machine than an idle server.
exec 3<>"/dev/tcp/127.0.0.1/${PORT:-8080}" || exit 1
printf 'GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' >&3
read -r -t 2 _ status _ <&3
[[ $status == 200 ]]
