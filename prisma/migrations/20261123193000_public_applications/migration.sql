-- Public applications may create tokens and do nothing else: those that hold more become private.
ALTER TABLE "applications"
    ADD COLUMN "allowed_origins" TEXT[] DEFAULT ARRAY[]::TEXT[],
    ADD COLUMN "container" TEXT,
    ADD COLUMN "creates_per_minute" INTEGER;

UPDATE "applications" SET "type" = 'private'
WHERE "type" = 'public' AND ("permissions" <> ARRAY['token:create'] OR "rules" <> '[]'::jsonb);
