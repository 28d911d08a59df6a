import { spawn } from 'node:child_process'
import path from 'node:path'
import { expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { allProcesses } from '../../support/run-warden/processes.ts'

const lives = (pid: number) => allProcesses().some((one) => one.pid === pid)

/** A run whose server goes on in a group of its own, when what started it has ended. */
async function run() {
  const child = spawn(process.execPath, [path.join(import.meta.dirname, 'run-that-is-killed.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => void (said += text))
  await eventually(() => said.includes('agent ended'), { what: 'the end of what started the server' })
  const [server = 0] = said.split('\n').map(Number)
  return { child, server }
}

test('of a test run that is killed no server is left, also where what started it ended before', async () => {
  const { child, server } = await run()
  const before = lives(server)
  child.kill('SIGKILL')
  await eventually(() => !lives(server), { what: 'the end of the server' })
  expect(before).toBe(true)
})

test('a test run that ends by itself leaves what its tests left, which is a defect of theirs to be seen', async () => {
  const { child, server } = await run()
  const wardens = allProcesses().filter(({ parent }) => parent === child.pid)
  child.stdin.end('end')
  await eventually(() => wardens.every(({ pid }) => !lives(pid)), { what: 'the end of the warden' })
  expect([wardens.length, lives(server)]).toEqual([1, true])
  process.kill(server, 'SIGKILL')
})
