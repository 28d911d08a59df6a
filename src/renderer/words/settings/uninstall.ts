import { formatBytes } from '../../../contract/format.ts'
import type { Trace } from '../../../contract/uninstall.ts'

/** So many places of a kind are named. */
const mostPlaces = 4

const sizeOf = ({ places }: Trace): number => places.reduce((sum, { bytes = 0 }) => sum + bytes, 0)

/** Everything that Metalbar ever wrote, and its removal. */
export const uninstallWords = {
  title: 'Uninstall',
  open: 'Uninstall Metalbar…',
  opens: 'Lists everything that was ever written on this Mac and in the cluster. Nothing is removed before you say so.',
  looking: 'Looking for everything that was ever written…',
  serving: (services: readonly string[]) =>
    `${services.length === 1 ? 'One model serves' : `${services.length} models serve`}: ${services.join(', ')}. They finish their requests and stop first.`,
  nothing: 'There is nothing of Metalbar here but the app.',
  trace: (trace: Trace): string => {
    const bytes = sizeOf(trace)
    return bytes === 0 ? trace.what : `${trace.what} · ${formatBytes(bytes)}`
  },
  places: ({ places, stays, problem }: Trace): string => {
    const named = places.slice(0, mostPlaces).map(({ path }) => path)
    const more = places.length - named.length
    const where = [...named, ...(more > 0 ? [`and ${more} more`] : [])].join(', ')
    return [
      ...(where === '' ? [] : [`${where}.`]),
      ...stays,
      ...(problem === undefined ? [] : [`Not known: ${problem}`]),
    ].join(' ')
  },
  remove: 'Remove what is on…',
  removing: 'Models finish their requests; then the app ends and says what it removed.',
  keep: 'Keep everything',
} as const
