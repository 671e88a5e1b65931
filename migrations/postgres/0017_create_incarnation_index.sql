-- Deaths that are not a message's first. Claiming and settling look here for a newer death of each row that they have
-- in hand, and mostly find an index with nothing in it.
create index concurrently if not exists wh_dead_letters_incarnation_idx on wh_dead_letters
    (source_table, source_id, incarnation)
    where incarnation > 1;
