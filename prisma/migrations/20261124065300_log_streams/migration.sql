-- How far each stream of the audit log has come: rows with ids up to `position` were streamed.
CREATE TABLE "log_streams" (
    "name" TEXT NOT NULL,
    "position" UUID NOT NULL,

    CONSTRAINT "log_streams_pkey" PRIMARY KEY ("name")
);
