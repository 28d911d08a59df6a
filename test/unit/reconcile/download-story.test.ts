import { expect, test } from 'vitest'
import { DownloadStory } from '../../../src/agent-core/reconcile/download-story.ts'
import { digestWith } from '../../../src/agent-core/reconcile/model-request.ts'

const totalBytes = 8_000_000_000

/** What is told of a download that arrives evenly within so many seconds, from some place on. */
function told({ seconds, fromBytes = 0 }: { seconds: number; fromBytes?: number }): (string | undefined)[] {
  let now = 0
  const story = new DownloadStory({ now: () => now })
  const steps = 1_000
  const notes = Array.from({ length: steps + 1 }, (_, step) => {
    now = (step * seconds * 1_000) / steps
    const doneBytes = fromBytes + ((totalBytes - fromBytes) * step) / steps
    return story.progress({ doneBytes, totalBytes, bytesPerSecond: 1 })?.message
  })
  return [...notes, story.done(totalBytes)?.message].filter((note) => note !== undefined)
}

test('of a short download the start and the end are told, of a long one the quarters too', () => {
  expect([told({ seconds: 100 }), told({ seconds: 301 }), told({ seconds: 600, fromBytes: 3_000_000_000 })]).toEqual([
    ['The download of the model begins: 8.0 GB.', 'The model is here: 8.0 GB, downloaded in 1 min.'],
    [
      'The download of the model begins: 8.0 GB.',
      '25 % of the model is here: 2.0 GB of 8.0 GB.',
      '50 % of the model is here: 4.0 GB of 8.0 GB.',
      '75 % of the model is here: 6.0 GB of 8.0 GB.',
      'The model is here: 8.0 GB, downloaded in 5 min.',
    ],
    [
      'The download of the model continues at 3.0 GB of 8.0 GB.',
      '50 % of the model is here: 4.0 GB of 8.0 GB.',
      '75 % of the model is here: 6.0 GB of 8.0 GB.',
      'The model is here: 8.0 GB, downloaded in 10 min.',
    ],
  ])
})

test('what waits for its turn, and what was here already, is no download', () => {
  const story = new DownloadStory({ now: () => 0 })
  const waiting = story.progress({ doneBytes: 0, bytesPerSecond: 0, phase: 'waiting', message: 'Waiting.' })
  expect([waiting, story.done(1)]).toEqual([undefined, undefined])
})

test.each<[string, string | undefined, string | undefined, string, boolean?]>([
  ['nothing runs and the content is not known', undefined, undefined, 'spec'],
  ['nothing runs', undefined, 'aaa', 'spec+aaa'],
  ['the content is not known yet: what runs has the right one', 'spec+aaa', undefined, 'spec+aaa'],
  ['the content is the same', 'spec+aaa', 'aaa', 'spec+aaa'],
  ['the content is another one', 'spec+aaa', 'bbb', 'spec+bbb'],
  ['it started before its content was known', 'spec', 'aaa', 'spec'],
  ['it started before its content was known, and its source changed since', 'spec', 'bbb', 'spec+bbb', true],
  ['it runs with another spec', 'other+aaa', 'aaa', 'spec+aaa'],
  ['another spec begins alike', 'specific', undefined, 'spec'],
])('the digest of a server where %s', (_, server, revision, wanted, isNewer = false) => {
  expect(digestWith('spec', { server, revision, isNewer })).toBe(wanted)
})
