import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, expect, test } from 'vitest'
import { Listeners, type ListenerState } from '../../../src/gateway/listeners.ts'
import { eventually } from '../../support/eventually.ts'
import { freePorts } from '../../support/free-port.ts'

const stack: Listeners[] = []
afterEach(() => {
  for (const listeners of stack.splice(0)) listeners.set([])
})

function listenersWith(states: ListenerState[] = []): Listeners {
  const listeners = new Listeners((state) => states.push(state))
  stack.push(listeners)
  return listeners
}

const host = '127.0.0.1'
const says = (words: string) => (socket: Socket) => void socket.end(words)
const ask = (port: number): Promise<string> => text(connect(port, host))

test('it listens where it is told, and lets what has begun at an address end that is wanted no longer', async () => {
  const one = await freePorts(2)
  const two = one + 1
  const states: ListenerState[] = []
  const listeners = listenersWith(states)
  const taken: Socket[] = []
  listeners.set([
    { host, port: one, onConnection: (socket) => taken.push(socket) },
    { host, port: two, onConnection: says('two') },
  ])
  await eventually(() => states.length === 2)
  expect(listeners.states).toEqual([
    { host, port: one },
    { host, port: two },
  ])
  const begun = ask(one)
  await eventually(() => taken.length === 1)
  expect(await ask(two)).toBe('two')
  listeners.set([{ host, port: two, onConnection: says('another') }])
  expect(await ask(two)).toBe('another')
  await expect(ask(one)).rejects.toThrow('ECONNREFUSED')
  taken[0]?.end('late')
  expect(await begun).toBe('late')
  expect(listeners.states).toEqual([{ host, port: two }])
})

test('an address that is taken is told with the code, and used as soon as it is free', async () => {
  const squatter = createServer()
  await once(squatter.listen(0, host), 'listening')
  const port = (squatter.address() as { port: number }).port
  const states: ListenerState[] = []
  const listeners = listenersWith(states)
  listeners.set([{ host, port, onConnection: says('ours') }])
  await eventually(() => states.length === 1)
  expect(states).toEqual([{ host, port, problem: 'EADDRINUSE' }])
  squatter.close()
  await eventually(() => states.length === 2, { what: 'the port that is free' })
  expect([states[1], await ask(port)]).toEqual([{ host, port }, 'ours'])
})
