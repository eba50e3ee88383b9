//! The examples of this repository, each written out as the beginning of somebody's own project.

mod recipe;
mod recipe_files;
mod standing_alone;

pub use self::recipe::RecipeError;
pub use self::recipe_files::Recipe;
