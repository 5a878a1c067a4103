-- Without the outbox. What it wrote into the log stays there.

drop function duly.retain(interval, bigint);
drop function duly.is_finished(text, text);
drop function duly.protect(regclass);
drop table duly.outbox;
drop function duly.outbox_timeline();
drop function duly.outbox_guard();
drop function duly.stamp_sent_message();
drop function duly.wake_workers();
drop function duly.wake(text);
drop function duly.this_window();
drop sequence duly.wake_outbox;
