-- The collations of search_name, by hand: byte order is what prefixes of names need, whatever the database's own is.

-- CreateTable
CREATE TABLE "official_formulas" (
    "id" UUID NOT NULL,
    "name" TEXT NOT NULL,
    "search_name" TEXT COLLATE "C" NOT NULL,
    "description" TEXT,
    "status" TEXT NOT NULL,
    "icon" TEXT,
    "code" TEXT NOT NULL,
    "configuration" JSONB NOT NULL,
    "request_parameters" JSONB NOT NULL,
    "version" INTEGER NOT NULL DEFAULT 1,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "modified_at" TIMESTAMPTZ(3),

    CONSTRAINT "official_formulas_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "reactor_formulas" (
    "tenant_id" UUID NOT NULL,
    "id" UUID NOT NULL,
    "name" TEXT NOT NULL,
    "search_name" TEXT COLLATE "C" NOT NULL,
    "description" TEXT,
    "icon" TEXT,
    "sealed" BYTEA NOT NULL,
    "configuration" JSONB NOT NULL,
    "request_parameters" JSONB NOT NULL,
    "version" INTEGER NOT NULL DEFAULT 1,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "created_by" UUID,
    "modified_at" TIMESTAMPTZ(3),
    "modified_by" UUID,

    CONSTRAINT "reactor_formulas_pkey" PRIMARY KEY ("tenant_id","id")
);

-- CreateTable
CREATE TABLE "reactors" (
    "tenant_id" UUID NOT NULL,
    "id" UUID NOT NULL,
    "name" TEXT NOT NULL,
    "search_name" TEXT COLLATE "C" NOT NULL,
    "formula_id" UUID NOT NULL,
    "application_id" UUID,
    "sealed" BYTEA NOT NULL,
    "version" INTEGER NOT NULL DEFAULT 1,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "created_by" UUID,
    "modified_at" TIMESTAMPTZ(3),
    "modified_by" UUID,

    CONSTRAINT "reactors_pkey" PRIMARY KEY ("tenant_id","id")
);

-- CreateIndex
CREATE INDEX "reactor_formulas_tenant_id_created_at_id_idx" ON "reactor_formulas"("tenant_id", "created_at" DESC, "id");

-- CreateIndex
CREATE INDEX "reactor_formulas_tenant_id_search_name_created_at_id_idx" ON "reactor_formulas"("tenant_id", "search_name", "created_at" DESC, "id");

-- CreateIndex
CREATE INDEX "reactors_tenant_id_created_at_id_idx" ON "reactors"("tenant_id", "created_at" DESC, "id");

-- CreateIndex
CREATE INDEX "reactors_tenant_id_search_name_created_at_id_idx" ON "reactors"("tenant_id", "search_name", "created_at" DESC, "id");

-- CreateIndex
CREATE INDEX "reactors_tenant_id_formula_id_idx" ON "reactors"("tenant_id", "formula_id");
