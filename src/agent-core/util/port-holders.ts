import type { PortHolder } from '../platform/platform.ts'

/** Who has a port, for a sentence: as far as the system tells. */
export function holdersText(holders: readonly PortHolder[], unknown: string): string {
  const names = holders.flatMap(({ pid, command }) =>
    pid === undefined ? [] : [`process ${pid}${command === undefined ? '' : ` (${command})`}`],
  )
  return names.length === 0 ? unknown : names.join(' and ')
}
