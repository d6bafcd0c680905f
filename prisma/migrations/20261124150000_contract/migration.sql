-- When no process of an earlier version used the database any more. Null: they may still.
ALTER TABLE instance ADD COLUMN contracted_at timestamptz(3);

-- When all rows had the forms of this version.
ALTER TABLE instance ADD COLUMN new_forms_at timestamptz(3);
