-- Rows that a new policy makes due.
create index if not exists wh_dead_letters_deferral
    on wh_dead_letters (dead_letter_id)
    where deferral in ('skip', 'policy-error');
