import { expect, test } from 'vitest'
import { DownloadProgress } from '../../../src/cli/model-verbs.ts'
import type { Progress } from '../../../src/contract/service.ts'
import { recordedIo } from '../../support/run-verb.ts'

/** What is written for these one after the other. */
function written(isTTY: boolean, ...all: readonly (Progress | undefined)[]): string {
  let text = ''
  const stdout = { isTTY, columns: 100, write: (more: string) => (text += more) }
  const { io } = recordedIo('/nowhere', { stdout, stderr: stdout, platform: 'linux' })
  const progress = new DownloadProgress(io)
  for (const one of all) {
    progress.show({
      name: 'qwen',
      source: 'hf://owner/name',
      state: 'downloading',
      message: 'Asks for the file.',
      since: '2026-01-02T03:04:05.000Z',
      ...(one && { progress: one }),
    })
  }
  return text.replaceAll('\r\u001b[K', '|')
}

const at = (doneBytes: number, totalBytes?: number, bytesPerSecond = 10): Progress => ({
  doneBytes,
  ...(totalBytes !== undefined && { totalBytes }),
  bytesPerSecond,
})

test('on a terminal one line changes, and says 100 % only where everything is there', () => {
  expect(written(true, undefined, at(400, 1_000), at(996, 1_000), at(1_000, 1_000))).toBe(
    [
      '|Asks for the file.',
      '|[############------------------] 40 %  400 B of 1.0 kB  10 B/s  1 min left',
      '|[##############################] 99 %  996 B of 1.0 kB  10 B/s  0 s left',
      '|[##############################] 100 %  1.0 kB of 1.0 kB  10 B/s',
    ].join(''),
  )
})

test('elsewhere there is a line for each tenth that is full', () => {
  expect(
    written(false, undefined, at(10, 1_000), at(99, 1_000), at(100, 1_000), at(996, 1_000), at(1_000, 1_000)),
  ).toBe(
    ['Asks for the file.', '0 %', '10 %', '90 %', '100 %', '']
      .map((line) => (line.endsWith('%') ? `${line} of 1.0 kB` : line))
      .join('\n'),
  )
})

test.each([
  ['unknown size', undefined],
  ['nothing', 0],
])('a download of %s has no percentage', (_, totalBytes) => {
  expect([written(true, at(0, totalBytes)), written(false, at(0, totalBytes))]).toEqual([
    '|0 B  10 B/s',
    'Downloading.\n',
  ])
})
