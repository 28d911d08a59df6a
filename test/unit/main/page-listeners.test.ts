import { EventEmitter } from 'node:events'
import { expect, test } from 'vitest'
import type { AgentLink, Listener } from '../../../src/contract/client.ts'
import type { AgentSnapshot } from '../../../src/contract/snapshot.ts'
import { PageListeners } from '../../../src/main/window/page.ts'
import { sampleSnapshot } from '../../support/sample-snapshot.ts'

/** A window whose page is gone before it says so, as Electron's is: what asks it for its page then throws. */
class ClosingWindow extends EventEmitter {
  isClosing = false
  isSeen = true
  readonly #page = Object.assign(new EventEmitter(), { send: () => this.sent++ })
  sent = 0

  get webContents() {
    if (this.isClosing) throw new TypeError('Object has been destroyed')
    return this.#page
  }

  isDestroyed(): boolean {
    return this.isClosing
  }

  isVisible(): boolean {
    return this.isSeen
  }
}

test('what the agent says while a window closes is sent to no page, and harms nothing', () => {
  const followers: Listener<AgentSnapshot>[] = []
  const link = { follow: (listener: Listener<AgentSnapshot>) => followers.push(listener) } as unknown as AgentLink
  const window = new ClosingWindow()
  new PageListeners(link, window as never).add('1', { name: 'snapshot' })
  const tell = () => {
    for (const { next } of followers) next(sampleSnapshot())
  }
  tell()
  window.isClosing = true
  expect(tell).not.toThrow()
  expect([followers.length, window.sent]).toEqual([1, 1])
})

test('while the window is hidden its page follows nothing, also what it asked for meanwhile, and all of it when it is shown', () => {
  const story: string[] = []
  const follow = () => {
    story.push('followed')
    return () => story.push('left')
  }
  const window = new ClosingWindow()
  window.isSeen = false
  new PageListeners({ follow } as unknown as AgentLink, window as never).add('1', { name: 'snapshot' })
  const hidden = [...story]
  for (const event of ['show', 'hide', 'show']) window.emit(event)
  expect([hidden, story]).toEqual([[], ['followed', 'left', 'followed']])
})
