-- Limits of applications: requests per second, and distinct tokens revealed and used per day. A lock that waits makes all others
-- wait behind it, and old servers end a query after 10 s: so it is tried for 2 s at a time.
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      ALTER TABLE "applications" ADD COLUMN "rate_limit" JSONB, ADD COLUMN "daily_reveals" INTEGER, ADD COLUMN "daily_uses" INTEGER;
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END
$$;

-- CreateTable
CREATE TABLE "daily_budgets" (
    "tenant_id" UUID NOT NULL,
    "id" UUID NOT NULL,
    "application_id" UUID NOT NULL,
    "limit_name" TEXT NOT NULL,
    "day" DATE NOT NULL,
    "counted" INTEGER NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "daily_budgets_pkey" PRIMARY KEY ("tenant_id","id")
);

-- CreateTable
CREATE TABLE "daily_tokens" (
    "tenant_id" UUID NOT NULL,
    "budget_id" UUID NOT NULL,
    "token_id" TEXT NOT NULL,

    CONSTRAINT "daily_tokens_pkey" PRIMARY KEY ("tenant_id","budget_id","token_id")
);

-- CreateTable
-- UNLOGGED, by hand: each request of a limited application writes it, and a crash of the database forgets seconds of requests.
CREATE UNLOGGED TABLE "request_rates" (
    "tenant_id" UUID NOT NULL,
    "id" UUID NOT NULL,
    "arrival_us" BIGINT NOT NULL,

    CONSTRAINT "request_rates_pkey" PRIMARY KEY ("tenant_id","id")
);

-- CreateIndex
CREATE INDEX "daily_budgets_expires_at_idx" ON "daily_budgets"("expires_at");

-- CreateIndex
CREATE UNIQUE INDEX "daily_budgets_tenant_id_application_id_day_limit_name_key" ON "daily_budgets"("tenant_id", "application_id", "day", "limit_name");

-- Counts tokens for a day's budget, all or none. A function, since each of its statements sees what was committed before it
-- began: the count has to see what others counted before they gave up the lock, which is the row of the budget.
--
-- ids: the tokens. most: the limit. new_id and until: of the row of the budget, if the function adds it.
-- Returns how many are counted now, and whether these are among them.
CREATE FUNCTION count_daily_tokens(
  of_tenant uuid, of_application uuid, of_limit text, on_day date, ids text[], most int, new_id uuid, until timestamptz
) RETURNS TABLE (counted int, is_allowed boolean)
LANGUAGE plpgsql AS $$
DECLARE
  budget uuid;
  fresh text[];
BEGIN
  SELECT b.id, b.counted INTO budget, counted FROM daily_budgets b
  WHERE b.tenant_id = of_tenant AND b.application_id = of_application AND b.day = on_day AND b.limit_name = of_limit;
  IF budget IS NULL THEN
    INSERT INTO daily_budgets (tenant_id, id, application_id, limit_name, day, counted, expires_at)
    VALUES (of_tenant, new_id, of_application, of_limit, on_day, 0, until) ON CONFLICT DO NOTHING;
  ELSE
    -- Without the lock: most requests are for tokens that are counted. What is too much now is too much later, as counts grow.
    -- OFFSET 0 looks each token up by itself. Else PostgreSQL may read all tokens of the budget.
    SELECT array_agg(DISTINCT w.id) INTO fresh FROM unnest(ids) AS w(id) WHERE NOT EXISTS (
      SELECT FROM daily_tokens t WHERE t.tenant_id = of_tenant AND t.budget_id = budget AND t.token_id = w.id OFFSET 0
    );
    is_allowed := fresh IS NULL OR counted + cardinality(fresh) <= most;
    IF fresh IS NULL OR NOT is_allowed THEN
      RETURN NEXT;
      RETURN;
    END IF;
  END IF;
  SELECT b.id, b.counted INTO budget, counted FROM daily_budgets b
  WHERE b.tenant_id = of_tenant AND b.application_id = of_application AND b.day = on_day AND b.limit_name = of_limit
  FOR UPDATE;
  SELECT coalesce(array_agg(DISTINCT w.id), '{}') INTO fresh FROM unnest(ids) AS w(id) WHERE NOT EXISTS (
    SELECT FROM daily_tokens t WHERE t.tenant_id = of_tenant AND t.budget_id = budget AND t.token_id = w.id OFFSET 0
  );
  is_allowed := cardinality(fresh) = 0 OR counted + cardinality(fresh) <= most;
  IF is_allowed AND cardinality(fresh) > 0 THEN
    INSERT INTO daily_tokens (tenant_id, budget_id, token_id) SELECT of_tenant, budget, w.id FROM unnest(fresh) AS w(id);
    counted := counted + cardinality(fresh);
    UPDATE daily_budgets b SET counted = count_daily_tokens.counted WHERE b.tenant_id = of_tenant AND b.id = budget;
  END IF;
  RETURN NEXT;
END
$$;
