import { EventEmitter } from 'node:events'
import { expect, test } from 'vitest'
import type { AgentLink } from '../../../src/contract/client.ts'
import { PageQuestions } from '../../../src/main/window/page.ts'

const query = { name: 'contexts' } as const

/** An agent that answers nothing, and a page. */
function asking() {
  const signals: AbortSignal[] = []
  const link = {
    query: (_query: unknown, signal: AbortSignal) => {
      signals.push(signal)
      return new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(new Error('withdrawn')), { once: true }),
      )
    },
  } as unknown as AgentLink
  const window = Object.assign(new EventEmitter(), { webContents: new EventEmitter() })
  return { questions: new PageQuestions(link, window as never), window, signals }
}

test('an id that is asked is refused to a second question, and the first can be withdrawn still', async () => {
  const { questions, signals } = asking()
  const first = questions.ask('1', query)
  await expect(questions.ask('1', query)).rejects.toThrow('already asks')
  questions.withdraw('1')
  await expect(first).rejects.toThrow('withdrawn')
  expect(signals.map(({ aborted }) => aborted)).toEqual([true])
})

test('a page cannot ask without an end; when another document comes all is withdrawn', async () => {
  const { questions, window, signals } = asking()
  const asked = Array.from({ length: 100 }, (_, id) => questions.ask(String(id), query))
  await expect(questions.ask('one more', query)).rejects.toThrow('too much')
  window.webContents.emit('did-navigate')
  await Promise.allSettled(asked)
  expect([signals.length, signals.every(({ aborted }) => aborted)]).toEqual([100, true])
})
