//! The laws that one query can see broken.

/// A law as a query for the rows that break it, each with its `id`, and what is wrong with them.
pub(super) struct Law {
    pub name: &'static str,
    pub broken_by: &'static str,
    pub message: &'static str,
}

pub(super) const LAWS: &[Law] = &[
    Law {
        name: "rollout_status",
        broken_by: "SELECT rollout_id AS id FROM rollouts WHERE status NOT IN
            ('queuing', 'preparing', 'running', 'failed', 'succeeded', 'cancelled', 'requeuing')",
        message: "its status is none that there is",
    },
    Law {
        name: "rollout_mode",
        broken_by: "SELECT rollout_id AS id FROM rollouts WHERE mode NOT IN ('train', 'val', 'test')",
        message: "its mode is none that there is",
    },
    Law {
        name: "attempt_status",
        broken_by: "SELECT rollout_id || '/' || attempt_id AS id FROM attempts WHERE status NOT IN
            ('preparing', 'running', 'failed', 'succeeded', 'unresponsive', 'timeout')",
        message: "its status is none that there is",
    },
    Law {
        name: "queue_position",
        broken_by: "SELECT rollout_id AS id FROM rollouts
            WHERE (queue_position IS NULL) = (status IN ('queuing', 'requeuing'))",
        message: "it must have a place in the queue exactly while it is queuing or requeuing",
    },
    Law {
        name: "rollout_end_time",
        broken_by: "SELECT rollout_id AS id FROM rollouts
            WHERE (end_time IS NULL) = (status IN ('failed', 'succeeded', 'cancelled'))",
        message: "it must have an end time exactly when it has finished",
    },
    Law {
        name: "attempt_end_time",
        broken_by: "SELECT rollout_id || '/' || attempt_id AS id FROM attempts
            WHERE (end_time IS NULL) = (status IN ('failed', 'succeeded', 'unresponsive', 'timeout'))",
        message: "it must have an end time exactly when it has ended",
    },
    Law {
        name: "completion_rollout",
        broken_by: "SELECT c.rollout_id AS id FROM completions c
            LEFT JOIN rollouts r ON r.rollout_id = c.rollout_id
            WHERE c.rollout_id IS NOT NULL AND r.rollout_id IS NULL",
        message: "it has finished and is missing",
    },
    Law {
        name: "attempt_rollout",
        broken_by: "SELECT a.rollout_id || '/' || a.attempt_id AS id FROM attempts a
            LEFT JOIN rollouts r ON r.rollout_id = a.rollout_id WHERE r.rollout_id IS NULL",
        message: "its rollout is missing",
    },
    Law {
        name: "span_attempt",
        broken_by: "SELECT s.rollout_id || '/' || s.attempt_id || '/' || s.span_id AS id FROM spans s
            LEFT JOIN attempts a ON a.rollout_id = s.rollout_id AND a.attempt_id = s.attempt_id
            WHERE a.attempt_id IS NULL",
        message: "its attempt is missing",
    },
    Law {
        name: "sequence_counter",
        broken_by: "SELECT s.rollout_id AS id FROM spans s
            LEFT JOIN sequence_counters c ON c.rollout_id = s.rollout_id
            GROUP BY s.rollout_id, c.value HAVING MAX(s.sequence_id) > COALESCE(c.value, 0)",
        message: "its counter of sequence ids is behind its spans",
    },
    Law {
        name: "generation_span",
        broken_by: "SELECT g.generation_id AS id FROM generations g
            LEFT JOIN spans s ON s.rollout_id = g.rollout_id AND s.attempt_id = g.attempt_id AND s.span_id = g.span_id
            WHERE s.span_id IS NULL",
        message: "its span is missing",
    },
    Law {
        name: "generation_parent",
        broken_by: "SELECT g.generation_id AS id FROM generations g
            LEFT JOIN generations p ON p.generation_id = g.parent_id
            WHERE g.parent_id IS NOT NULL AND (p.generation_id IS NULL OR p.rollout_id <> g.rollout_id
                OR p.attempt_id <> g.attempt_id OR p.position >= g.position)",
        message: "the generation that it continues is not an earlier one of its attempt",
    },
    Law {
        name: "messages_parent",
        broken_by: "SELECT g.generation_id AS id FROM generations g
            LEFT JOIN generations p ON p.generation_id = g.messages_parent_id
            WHERE g.messages_parent_id IS NOT NULL AND (p.generation_id IS NULL OR p.rollout_id <> g.rollout_id
                OR p.attempt_id <> g.attempt_id OR p.position >= g.position)",
        message: "the generation that its messages come after is not an earlier one of its attempt",
    },
    Law {
        name: "blob_lengths",
        broken_by: "SELECT generation_id AS id FROM generations
            WHERE length(prompt_tokens) % 4 <> 0 OR length(sampled_tokens) <> 4 * sampled_length
                OR (logprobs IS NOT NULL AND length(logprobs) <> length(sampled_tokens))",
        message: "its tokens and logprobs do not have the bytes that their number takes",
    },
    Law {
        name: "uses",
        broken_by: "SELECT u.run_id || '/' || u.generation_id AS id FROM generation_uses u
            LEFT JOIN generations g ON g.generation_id = u.generation_id
            GROUP BY u.run_id, u.generation_id, g.sampled_length
            HAVING g.sampled_length IS NULL OR SUM(u.tokens) > g.sampled_length",
        message: "a run accounts for more tokens than were sampled",
    },
    Law {
        name: "teacher_logprobs",
        broken_by: "SELECT t.run_id || '/' || t.generation_id AS id FROM teacher_logprobs t
            LEFT JOIN generations g ON g.generation_id = t.generation_id
            WHERE g.sampled_length IS NULL OR length(t.logprobs) <> 4 * g.sampled_length",
        message: "a teacher's logprobs are not as many as the tokens that were sampled",
    },
];
