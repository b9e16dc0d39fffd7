"""What the keys of the policy mean, and what can be chosen: for whoever edits it."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

LABELS: dict[str, Promise] = {
    "high_order": _("Order of high tasks"),
    "elastic_order": _("Order of elastic tasks"),
    "head_of_line": _("The first task that cannot start"),
    "reserve_after_s": _("Reservation after (s)"),
    "aging_s": _("Aging (s)"),
    "fair_half_life_s": _("Half-life of past use (s)"),
    "slice_s": _("Time slice (s)"),
    "placement": _("Placement"),
    "victim_order": _("Who is evicted first"),
    "min_run_s": _("Shortest run before an eviction (s)"),
    "max_evictions_per_hour": _("Evictions of one task per hour, at most"),
    "evict_delay_s": _("Delay before evicting (s)"),
    "exit_grace_s": _("Time to exit (s)"),
    "plan_lapse_s": _("Held cards are given up after (s)"),
    "start_deadline_s": _("Start deadline (s)"),
    "pull_up_backoff_s": _("Pause before a pull-up (s)"),
    "lost_after_s": _("A host is lost after (s)"),
    "restart_lost_s": _("Attempts on a lost host end after (s)"),
    "quarantine_after": _("Failing tasks before quarantine"),
}
HELP: dict[str, Promise] = {
    "high_order": _("Inside each business."),
    "elastic_order": _("Among all businesses."),
    "head_of_line": _("What becomes of the tasks behind it in its queue."),
    "reserve_after_s": _("It waits so long before hosts are kept for it. 0: at once."),
    "aging_s": _(
        "Waiting worth one level of priority; in the other orders who waited so long goes first. 0: never."
    ),
    "fair_half_life_s": _("After so long past card-seconds count half in the fair share."),
    "slice_s": _("Of round robin."),
    "placement": _("Which of the fitting hosts is taken."),
    "victim_order": _("Among elastic tasks on hosts that suit alike."),
    "min_run_s": _(
        "A younger elastic attempt is evicted only where the guarantee needs it. 0: none is too young."
    ),
    "max_evictions_per_hour": _("More only where the guarantee needs it. 0: no cap."),
    "evict_delay_s": _("A high task waits so long for cards to come free by themselves. 0: not at all."),
    "exit_grace_s": _("From the start of the exit command to KILL, 30 at most. 0: KILL at once."),
    "plan_lapse_s": _("After the last victim was told to leave; 45 at least, for a victim takes up to 30 s."),
    "start_deadline_s": _("An attempt that does not run whole by then is stopped whole. 30 at least."),
    "pull_up_backoff_s": _("Doubles with each eviction, 600 at most. 0: none."),
    "lost_after_s": _("So long without a word. 40 at least."),
    "restart_lost_s": _(
        "They may be pulled up elsewhere then. 0: only when operators set the host to removed."
    ),
    "quarantine_after": _("So many different tasks failing at start on one host. 0: never."),
}
CHOICES: dict[str, Promise] = {
    "priority": _("by priority and waiting"),
    "fifo": _("first come, first served"),
    "shortest_first": _("shortest time limit first"),
    "fair_share": _("who used least goes first"),
    "round_robin": _("in turns, by time slices"),
    "reserve": _("gets a reservation; others run where they end before it begins"),
    "skip": _("is passed over"),
    "strict": _("stops its queue"),
    "best_fit": _("the fullest, so that large blocks stay whole"),
    "spread": _("the emptiest, so that tasks are spread"),
    "longest_run": _("most card-hours"),
    "shortest_run": _("fewest card-hours"),
    "least_lost_work": _("least work since the last checkpoint"),
}
