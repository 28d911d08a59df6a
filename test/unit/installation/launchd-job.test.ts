import { expect, test } from 'vitest'
import { parseLaunchdJob } from '../../../src/installation/service/launchd.ts'

/** `launchctl print` of macOS 15, shortened where only lines of the same kind follow. */
const printed = (lines: readonly string[]) => `gui/501/dev.metalbar.llmkube-metal-agent = {
\tactive count = 1
\tpath = /Users/you/Library/LaunchAgents/dev.metalbar.llmkube-metal-agent.plist
\ttype = LaunchAgent
\tmanaged_by = com.apple.xpc.ServiceManagement
${lines.map((line) => `\t${line}`).join('\n')}

\tprogram = /usr/local/bin/metal-agent
\targuments = {
\t\t/usr/local/bin/metal-agent
\t\tpid = 1
\t}

\tenvironment = {
\t\tXPC_SERVICE_NAME => dev.metalbar.llmkube-metal-agent
\t}

\tsemaphores = {
\t\tsuccessful exit => 0
\t}
\truns = 3
\tspawn type = interactive (4)
}
`

test.for([
  [['state = running', 'pid = 4711', 'pid = 2', 'last exit code = (never exited)'], { pid: 4711 }],
  [['state = not running', 'last exit code = 0'], { lastExit: { code: 0 } }],
  [['state = spawn scheduled', 'last exit code = 78: EX_CONFIG'], { lastExit: { code: 78 } }],
  [
    ['state = running', 'pid = 9', 'last terminating signal = Killed: 9'],
    { pid: 9, lastExit: { signal: 'Killed: 9' } },
  ],
] as const)('%s is read from the lines of the job alone', ([lines, job]) => {
  expect(parseLaunchdJob(printed(lines))).toEqual(job)
})

test('an output of another make says at least that the job is there', () => {
  expect(parseLaunchdJob('{ "Label" = "x"; }')).toEqual({})
})
