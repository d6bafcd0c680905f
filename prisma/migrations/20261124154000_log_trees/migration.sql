-- The Merkle trees over the audit log, one for each tenant. Leaves are in the order of the ids of rows.
CREATE TABLE "log_trees" (
    "tenant_id" UUID NOT NULL,
    -- Leaves.
    "size" BIGINT NOT NULL,
    "root" BYTEA NOT NULL,
    -- The row of the last leaf.
    "last_id" UUID NOT NULL,
    -- The size of the newest checkpoint.
    "signed_size" BIGINT NOT NULL,

    CONSTRAINT "log_trees_pkey" PRIMARY KEY ("tenant_id")
);

-- Leaf hashes with the ids of their rows, 256 in a block: 48 bytes a row. A block begins with the frontier of the leaves before it,
-- so that the tree goes on without earlier blocks: they are deleted with their months.
CREATE TABLE "log_leaves" (
    "tenant_id" UUID NOT NULL,
    "number" BIGINT NOT NULL,
    "last_id" UUID NOT NULL,
    "frontier" BYTEA NOT NULL,
    "ids" BYTEA NOT NULL,
    "hashes" BYTEA NOT NULL,

    CONSTRAINT "log_leaves_pkey" PRIMARY KEY ("tenant_id", "number")
);

-- Hashes do not compress.
ALTER TABLE "log_leaves" ALTER COLUMN "ids" SET STORAGE EXTERNAL, ALTER COLUMN "hashes" SET STORAGE EXTERNAL;

-- Signed notes of the size and root of a tree. `id` begins with the time: exports follow its order.
CREATE TABLE "log_checkpoints" (
    "tenant_id" UUID NOT NULL,
    "size" BIGINT NOT NULL,
    "id" UUID NOT NULL,
    "note" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    -- The last row of a month: its archive ends with this checkpoint.
    "ends_month" BOOLEAN NOT NULL,

    CONSTRAINT "log_checkpoints_pkey" PRIMARY KEY ("tenant_id", "size")
);

CREATE UNIQUE INDEX "log_checkpoints_id_idx" ON "log_checkpoints"("id");
CREATE INDEX "log_checkpoints_created_at_idx" ON "log_checkpoints"("created_at");

-- Months whose rows were moved into an archive: their rows are not missing.
CREATE TABLE "log_archives" (
    "name" TEXT NOT NULL,
    "from_id" UUID,
    "to_id" UUID NOT NULL,
    "archived_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "log_archives_pkey" PRIMARY KEY ("name")
);
