export const logWords = {
  title: 'Log',
  run: 'Run',
  current: 'This run',
  previous: 'Previous',
  output: 'Output',
  newRun: 'A new run begins.',
  nothing: 'Nothing was printed yet.',
  noPrevious: 'No earlier run is kept.',
  paused: (missed: number) => (missed === 0 ? 'Paused' : `Paused · ${missed} new ${missed === 1 ? 'line' : 'lines'}`),
  follow: 'Follow',
  reveal: 'Show file',
  search: 'Search the log',
  searchHint: 'Search',
  nextMatch: 'Next match',
  previousMatch: 'Previous match',
  /** `current` counts from 1; undefined = none of them is looked at. */
  matches(count: number, current: number | undefined): string {
    if (count === 0) return 'No match'
    if (current !== undefined) return `${current} of ${count}`
    return count === 1 ? '1 match' : `${count} matches`
  },
} as const
