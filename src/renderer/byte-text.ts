import { parseByteCount } from '../contract/format.ts'

/** As Kubernetes writes them, from the smallest to the largest; the first is of single bytes. */
export const byteUnits = ['', 'k', 'Ki', 'M', 'Mi', 'G', 'Gi', 'T', 'Ti'] as const
export type ByteUnit = (typeof byteUnits)[number]

/** In the largest unit that leaves a whole number; what {@link parseByteCount} reads back. */
export function byteTextOf(bytes: number): string {
  const unit = byteUnits.findLast((one) => bytes > 0 && bytes % sizeOf(one) === 0) ?? ''
  return `${bytes / sizeOf(unit)}${unit}`
}

const sizeOf = (unit: ByteUnit): number => parseByteCount(`1${unit}`) ?? 1

/** The number, which may be anything a person wrote, and its unit; 0 and nothing have none. */
export function splitByteText(text: string): { readonly amount: string; readonly unit: ByteUnit | undefined } {
  const unit = byteUnits.findLast((one) => text.endsWith(one)) ?? ''
  const amount = text.slice(0, text.length - unit.length).trimEnd()
  return { amount, unit: unit === '' && !(Number(amount) > 0) ? undefined : unit }
}

/** Nothing written is no number, whatever its unit; a unit that was written with the number counts. */
export function joinByteText(written: string, unit: ByteUnit): string {
  const { amount, unit: own = '' } = splitByteText(written.trim().replace(/B$/, ''))
  return amount === '' ? '' : `${amount}${own === '' ? unit : own}`
}
