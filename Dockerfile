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
COPY release ./release
# The commit that is built, for `strongroom version`: the build is not sent .git.
ARG COMMIT
# The image has Node 24 and is given a database: of the optional packages, what runs needs only koffi, for the key provider
# pkcs11; the compiler needs its own. The links to our own packages go: their scripts are in dist/.
RUN npm ci && npm run sbom && mkdir /kept && mv node_modules/koffi node_modules/@koromix /kept/ && \
    npm prune --omit=dev --omit=optional --ignore-scripts && mv /kept/* node_modules/ && \
    rm -rf node_modules/@strongroom && node release/trim.ts node_modules

# Of the image of Node only the program is needed: its headers, npm and yarn are 90 MB.
FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="Strongroom" \
      org.opencontainers.image.description="A self-hostable vault for card, bank and personal data" \
      org.opencontainers.image.licenses="Apache-2.0"
# bubblewrap adds to the wall around tenants' code where the container may make namespaces; perl-base, which starts executors,
# is part of the base image. libatomic1 and libstdc++6 are what Node is linked with.
RUN apt-get update && \
    apt-get install -y --no-install-recommends bubblewrap tini libatomic1 libstdc++6 && \
    rm -rf /var/lib/apt/lists/* && \
    groupadd --gid 1000 node && useradd --uid 1000 --gid node --no-create-home --home-dir /nonexistent node
COPY --from=build /usr/local/bin/node /usr/local/bin/node
WORKDIR /app
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY --from=build /app/bin ./bin
COPY --from=build /app/prisma/migrations ./prisma/migrations
COPY --from=build /app/formulas ./formulas
COPY --from=build /app/package.json ./
# What is in the image of npm's packages, for scanners.
COPY --from=build /app/sbom.cdx.json ./
# For `db roles --print-sql`.
COPY deploy/postgres/roles.sql ./deploy/postgres/roles.sql
COPY LICENSE ./
# By number, so that Kubernetes sees that it is not root. Nothing in the image belongs to this user, and nothing is written
# outside /tmp: run it with a read-only root.
USER 1000:1000
EXPOSE 8080
STOPSIGNAL SIGTERM
# The first check runs after one interval, and `docker compose up --wait` waits for it. The classic builder refuses
# --start-interval.
HEALTHCHECK --interval=3s --timeout=3s --start-period=20s CMD ["node", "bin/healthcheck.cjs"]
# `docker run IMAGE` serves; `docker run IMAGE bootstrap ...` is the operator's command line.
# Linux drops a SIGKILL that process 1 sends to itself, and the watchdog of the event loop ends the server by one.
ENTRYPOINT ["tini", "--", "node", "--disable-sigusr1", "--min-semi-space-size=16", "--max-semi-space-size=16", "bin/entrypoint.cjs"]
