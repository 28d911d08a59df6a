import { expect, test } from 'vitest'
import { askedAt, hostFor, hostIn, hostInText } from '../../../src/agent-core/servers/listening.ts'

test('where a server listens is read from its own command line', () => {
  expect(hostIn(['--model', 'a', '--host', '10.0.0.1', '--port', '1'])).toBe('10.0.0.1')
  expect(hostIn(['--port', '1'])).toBe('0.0.0.0')
  expect(hostInText('/bin/llama-server --model a --host 127.0.0.1 --port 1')).toBe('127.0.0.1')
  expect(hostInText('/bin/llama-server --host 127.0.0.1')).toBe('127.0.0.1')
  expect(hostInText('/bin/llama-server --host :: --port 1')).toBe('::')
  expect(hostInText('/bin/llama-server --host fd00::20')).toBe('fd00::20')
  expect(hostInText('/bin/llama-server --host-x 127.0.0.1 --port 1')).toBeUndefined()
})

test('this machine asks it where it listens', () => {
  expect(['0.0.0.0', '::', '127.0.0.1', '10.0.0.1', 'fd00::20'].map(askedAt)).toEqual([
    ...['127.0.0.1', '127.0.0.1', '127.0.0.1', '10.0.0.1', 'fd00::20'],
  ])
})

test('a server that is started listens as the setting says, and is open to nobody else where there is no address', () => {
  const at = (mode: 'all' | 'published' | 'gateway') => [hostFor(mode, '10.0.0.1'), hostFor(mode, undefined)]
  expect([at('all'), at('published'), at('gateway')]).toEqual([
    ['0.0.0.0', '0.0.0.0'],
    ['10.0.0.1', '127.0.0.1'],
    ['127.0.0.1', '127.0.0.1'],
  ])
  expect([hostFor('all', 'fd00::20'), hostFor('published', 'fd00::20')]).toEqual(['::', 'fd00::20'])
})
