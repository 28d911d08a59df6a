import { expect, test } from 'vitest'
import { LinkError, type AgentLink, type Listener } from '../../../src/contract/client.ts'
import type { AgentSnapshot } from '../../../src/contract/snapshot.ts'
import { lazyLink } from '../../../src/main/agent/lazy-link.ts'
import { sampleSnapshot } from '../../support/sample-snapshot.ts'

/** An agent at the n-th start, that a test can end. */
class Agents {
  opened = 0
  isAway = false
  follower: Listener<AgentSnapshot> | undefined
  unfollowed = 0
  readonly link = lazyLink(() => Promise.resolve().then(() => this.#open()))

  #open(): AgentLink {
    if (this.isAway) throw new Error('nobody listens')
    this.opened += 1
    const version = `start ${this.opened}`
    const gone = () => new LinkError('gone', 'The agent went.')
    return {
      snapshot: () => (this.isAway ? Promise.reject(gone()) : Promise.resolve(sampleSnapshot({ version }))),
      command: () => Promise.reject(new LinkError('refused', 'No.')),
      query: () => Promise.reject(gone()),
      follow: (listener) => {
        this.follower = listener
        return () => void (this.unfollowed += 1)
      },
      stream: () => () => undefined,
    }
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

test('is opened by the first question, once, and anew after the agent was gone', async () => {
  const agents = new Agents()
  const before = agents.opened
  const versions = [(await agents.link.snapshot()).version, (await agents.link.snapshot()).version]
  agents.isAway = true
  await expect(agents.link.snapshot()).rejects.toThrow('The agent went.')
  await expect(agents.link.snapshot()).rejects.toThrow(new LinkError('gone', 'nobody listens'))
  agents.isAway = false
  versions.push((await agents.link.snapshot()).version)
  expect({ before, versions }).toEqual({ before: 0, versions: ['start 1', 'start 1', 'start 2'] })
})

test('stays open when a question is only refused', async () => {
  const agents = new Agents()
  await expect(agents.link.command({ name: 'resync' })).rejects.toThrow('No.')
  await agents.link.snapshot()
  expect(agents.opened).toBe(1)
})

test('tells a follower when the agent goes, and nobody who has left', async () => {
  const agents = new Agents()
  const heard: string[] = []
  const listener = { next: () => undefined, end: ({ message }: LinkError) => void heard.push(message) }
  agents.link.follow(listener)()
  await settled()
  const followedTooLate = agents.follower !== undefined
  const leave = agents.link.follow(listener)
  await settled()
  agents.follower?.end(new LinkError('gone', 'The agent went.'))
  leave()
  agents.follower?.end(new LinkError('gone', 'Again.'))
  expect({ followedTooLate, heard, unfollowed: agents.unfollowed }).toEqual({
    followedTooLate: false,
    heard: ['The agent went.'],
    unfollowed: 1,
  })
})
