-- The log of transitions refuses every change.

create or replace trigger transition_is_append_only before update or delete on duly.transition
    for each row execute function duly.refuse_change();
create or replace trigger transition_is_not_emptied before truncate on duly.transition
    for each statement execute function duly.refuse_change();

-- Privileges ----------------------------------------------------------------------------------------------------------

grant select on duly.transition to {worker}, {api}, {readonly};
