-- Reads the audit log once, a second for some million rows. Servers read and write meanwhile.
ALTER TABLE "audit_log" VALIDATE CONSTRAINT "audit_log_bound";
