import { readFile } from 'node:fs/promises'
import { z } from 'zod'

/** Names the file that a recorder adds to; it is there before. */
export const loopRecordsVariable = 'METALBAR_TEST_LOOP_RECORDS'

export const lookEveryMs = 10

/** What is shorter need not be known. */
export const noteworthyMs = 5

/** For `NODE_OPTIONS`. */
export const loopRecorder = `--import=${new URL('loop-recorder.ts', import.meta.url).href}`

const record = z.object({ endedAt: z.number(), cpuMs: z.number() })

/** The processor time of every noteworthy turn that ended since `from`, in milliseconds. */
export async function longTurns(file: string, from: number): Promise<number[]> {
  const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '')
  return lines
    .map((line) => record.parse(JSON.parse(line)))
    .filter(({ endedAt }) => endedAt >= from)
    .map(({ cpuMs }) => cpuMs)
}
