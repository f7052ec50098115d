-- The owner is told when the machine began to fail, and when that was over; and of backups that are missing.
ALTER TABLE notices DROP CONSTRAINT notices_kind_check;
ALTER TABLE notices ADD CONSTRAINT notices_kind_check
    CHECK (kind IN ('message_dead', 'work_dead', 'delivery_unknown', 'delivery_failed', 'delivery_dead', 'schedule_failed',
                    'schedule_missed', 'budget_spent', 'butler_parked', 'approval_abandoned', 'memory_dead_letter',
                    'machine', 'backup_missing'));
