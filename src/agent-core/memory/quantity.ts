const binarySuffixes: Readonly<Record<string, bigint>> = {
  Ki: 2n ** 10n,
  Mi: 2n ** 20n,
  Gi: 2n ** 30n,
  Ti: 2n ** 40n,
  Pi: 2n ** 50n,
  Ei: 2n ** 60n,
}

/** Powers of ten. */
const decimalSuffixes: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  '': 0,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
}

const quantity = /^([+-]?)(\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:([EPTGM]i|Ki|[numkMGTPE]?)|[eE]([+-]?\d{1,3}))$/

/**
 * The number that a Kubernetes quantity (24Gi, 24G, 1.5e9, 500m) stands for, a fraction rounded up as Kubernetes does;
 * undefined where the text is none, or stands for a number beyond 2^53. Suffixes are case-sensitive: 500m is half of one.
 */
export function parseQuantity(text: string): number | undefined {
  const match = quantity.exec(text)
  if (match === null) return undefined
  const [, sign, digits = '', suffix = '', exponent] = match
  const [whole = '', fraction = ''] = digits.split('.')
  const binary = binarySuffixes[suffix]
  const power = (exponent === undefined ? (decimalSuffixes[suffix] ?? 0) : Number(exponent)) - fraction.length
  const mantissa = BigInt(whole + fraction) * (binary ?? 1n)
  const size = power >= 0 ? mantissa * 10n ** BigInt(power) : ceilDivide(mantissa, 10n ** BigInt(-power), sign === '-')
  if (size > BigInt(Number.MAX_SAFE_INTEGER)) return undefined
  return sign === '-' && size > 0n ? -Number(size) : Number(size)
}

/** Of a number's size: away from zero for a positive one, towards it for a negative one. */
function ceilDivide(dividend: bigint, divisor: bigint, isNegative: boolean): bigint {
  const quotient = dividend / divisor
  return !isNegative && quotient * divisor < dividend ? quotient + 1n : quotient
}
