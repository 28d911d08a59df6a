import { spawn } from 'node:child_process'
import { startWarden } from '../../support/run-warden/global-setup.ts'

/** `node run-that-is-killed.ts`: a test run whose server is in a group of its own, and was started by what has ended since. */
const over = startWarden()
const agent = `
  const { spawn } = require('node:child_process')
  const server = spawn('/bin/sleep', ['300'], { detached: true, stdio: 'ignore' })
  process.stdout.write(server.pid + '\\n')
  setTimeout(() => process.exit(), 2_000)`
spawn(process.execPath, ['-e', agent], { stdio: ['ignore', 'inherit', 'ignore'], detached: true }).once('exit', () =>
  process.stdout.write('agent ended\n'),
)
process.stdin.on('data', () => {
  over()
  process.stdin.unref()
})
