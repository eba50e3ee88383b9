use super::dtype::DType;
use super::packed::{Packed, unpack};
use super::wire_error::WireError;

/// More numbers than any array of a datum holds; a sparse one could otherwise ask for any amount of memory.
const GREATEST_ARRAY: usize = 1 << 27;

/// Numbers of one type. The narrower types of the wire are widened.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Float32.
    Floats(Vec<f32>),
    /// Int64.
    Integers(Vec<i64>),
}

impl Numbers {
    /// The numbers of bytes, of a type that [`DType`] tells by its number.
    pub fn unpack(bytes: &[u8], dtype: i32) -> Result<Self, WireError> {
        Ok(match DType::try_from(dtype) {
            Ok(DType::Float32) => Self::Floats(unpack(bytes)?),
            Ok(DType::Bfloat16) => Self::Floats(widen(bytes, |half: u16| f32::from_bits(u32::from(half) << 16))?),
            Ok(DType::Int64) => Self::Integers(unpack(bytes)?),
            Ok(DType::Int32) => Self::Integers(widen(bytes, |narrow: i32| i64::from(narrow))?),
            Ok(DType::Unspecified) | Err(_) => return Err(WireError::UnknownType { dtype }),
        })
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Integers(values) => values.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As floats, which integers are not.
    pub fn into_floats(self) -> Result<Vec<f32>, WireError> {
        match self {
            Self::Floats(values) => Ok(values),
            Self::Integers(_) => Err(WireError::WrongType { actual: "integers", expected: "floats" }),
        }
    }

    /// As integers, which floats are not.
    pub fn into_integers(self) -> Result<Vec<i64>, WireError> {
        match self {
            Self::Integers(values) => Ok(values),
            Self::Floats(_) => Err(WireError::WrongType { actual: "floats", expected: "integers" }),
        }
    }
}

fn widen<const BYTES: usize, T: Packed<BYTES>, W>(bytes: &[u8], to: impl Fn(T) -> W) -> Result<Vec<W>, WireError> {
    Ok(unpack(bytes)?.into_iter().map(to).collect())
}

/// An array of any number of dimensions, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Its numbers.
    pub numbers: Numbers,
    /// Its dimensions.
    pub shape: Vec<usize>,
}

impl Array {
    /// An array of all its numbers. Without a shape it is a list.
    pub fn dense(numbers: Numbers, shape: &[i64]) -> Result<Self, WireError> {
        if shape.is_empty() {
            return Ok(Self { shape: vec![numbers.len()], numbers });
        }
        let refuse = || WireError::Shape { shape: shape.to_vec(), actual: numbers.len() };
        let dimensions = dimensions(shape).ok_or_else(refuse)?;
        if dimensions.iter().product::<usize>() != numbers.len() {
            return Err(refuse());
        }
        Ok(Self { shape: dimensions, numbers })
    }

    /// A matrix of some of its numbers, each in the row whose bounds in `crow` it is within and in its column of `col`;
    /// the others are 0.
    pub fn sparse(numbers: Numbers, crow: &[i64], col: &[i64], shape: &[i64]) -> Result<Self, WireError> {
        let refuse = || WireError::Sparse { shape: shape.to_vec(), values: numbers.len() };
        let dimensions = dimensions(shape).ok_or_else(refuse)?;
        let &[rows, columns] = dimensions.as_slice() else { return Err(refuse()) };
        let cells = cells(crow, col, rows, columns).filter(|cells| cells.len() == numbers.len()).ok_or_else(refuse)?;
        let numbers = match &numbers {
            Numbers::Floats(values) => Numbers::Floats(scatter(values, &cells, rows * columns)),
            Numbers::Integers(values) => Numbers::Integers(scatter(values, &cells, rows * columns)),
        };
        Ok(Self { shape: dimensions, numbers })
    }
}

/// The shape, if it can be one and is not beyond all measure.
fn dimensions(shape: &[i64]) -> Option<Vec<usize>> {
    let dimensions: Vec<usize> = shape.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<_>>()?;
    let all = dimensions.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?;
    (all <= GREATEST_ARRAY).then_some(dimensions)
}

/// Which cell each value of a sparse matrix is, if its rows and columns hold together.
fn cells(crow: &[i64], col: &[i64], rows: usize, columns: usize) -> Option<Vec<usize>> {
    if crow.len() != rows + 1 || crow.first() != Some(&0) || crow.last() != Some(&(col.len() as i64)) {
        return None;
    }
    let mut cells = Vec::with_capacity(col.len());
    for (row, bounds) in crow.windows(2).enumerate() {
        let (start, end) = (usize::try_from(bounds[0]).ok()?, usize::try_from(bounds[1]).ok()?);
        for &column in col.get(start..end)? {
            let column = usize::try_from(column).ok().filter(|&column| column < columns)?;
            cells.push(row * columns + column);
        }
    }
    Some(cells)
}

fn scatter<T: Copy + Default>(values: &[T], cells: &[usize], size: usize) -> Vec<T> {
    let mut dense = vec![T::default(); size];
    for (&value, &cell) in values.iter().zip(cells) {
        dense[cell] = value;
    }
    dense
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_numbers_are_widened() {
        assert_eq!(Numbers::unpack(&[0x80, 0x3f, 0x20, 0xc0], 4), Ok(Numbers::Floats(vec![1.0, -2.5])));
        assert_eq!(Numbers::unpack(&[0xff, 0xff, 0xff, 0xff], 3), Ok(Numbers::Integers(vec![-1])));
        assert_eq!(Numbers::unpack(&[0; 3], 1), Err(WireError::PartialNumber { bytes: 3, size: 4 }));
        for dtype in [0, 5, -1] {
            assert_eq!(Numbers::unpack(&[], dtype), Err(WireError::UnknownType { dtype }));
        }
    }

    #[test]
    fn a_sparse_matrix_is_0_where_nothing_stands() {
        let values = || Numbers::Floats(vec![1.0, 2.0, 3.0]);
        let array = Array::sparse(values(), &[0, 1, 1, 3], &[1, 0, 2], &[3, 3]).unwrap();
        assert_eq!(array.numbers, Numbers::Floats(vec![0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 3.0]));
        assert_eq!(array.shape, [3, 3]);
        for (crow, col, shape) in [
            (vec![0, 1, 3], vec![1, 0, 2], vec![3, 3]),
            (vec![0, 1, 1, 2], vec![1, 0, 2], vec![3, 3]),
            (vec![0, 2, 1, 3], vec![1, 0, 2], vec![3, 3]),
            (vec![0, 1, 1, 3], vec![1, 0, 3], vec![3, 3]),
            (vec![0, 1, 1, 3], vec![1, 0, -1], vec![3, 3]),
            (vec![0, 1, 1, 2], vec![1, 0], vec![3, 3]),
            (vec![0, 3], vec![1, 0, 2], vec![1, 1 << 40]),
            (vec![0, 3], vec![1, 0, 2], vec![3]),
        ] {
            let error = Array::sparse(values(), &crow, &col, &shape).unwrap_err();
            assert_eq!(error, WireError::Sparse { shape, values: 3 });
        }
    }

    #[test]
    fn numbers_fill_their_shape() {
        let array = |shape: &[i64]| Array::dense(Numbers::Integers(vec![1, 2]), shape).map(|array| array.shape);
        assert_eq!((array(&[2]), array(&[]), array(&[1, 2])), (Ok(vec![2]), Ok(vec![2]), Ok(vec![1, 2])));
        for shape in [vec![3], vec![-2], vec![2, 0], vec![i64::MAX, i64::MAX]] {
            assert_eq!(array(&shape), Err(WireError::Shape { shape, actual: 2 }));
        }
    }
}
