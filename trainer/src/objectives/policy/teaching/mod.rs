//! Teachers, and what they make of the tokens that the policy sampled.

mod following_teacher;
mod teacher_prompt;
mod teachers;

pub use self::following_teacher::FollowingTeacher;
pub use self::teachers::Teachers;
pub(crate) use self::teachers::{CONCURRENCY, MemberPlace};
