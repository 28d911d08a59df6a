import path from 'node:path'
import { parse } from 'plist'
import { expect, test } from 'vitest'
import { launchdPlist, readLaunchdPlist } from '../../../../src/installation/service/launchd.ts'
import { commandLine, PlistError } from '../../../../src/installation/service/service-plan.ts'
import { examplePlan, oddTexts } from './example-plans.ts'

const assets = path.join(import.meta.dirname, '../../../../assets/launchd')

/** Every key that launchd.plist(5) of macOS 15 names at the top. */
const applesKeys = [
  ...['Label', 'Disabled', 'UserName', 'GroupName', 'inetdCompatibility', 'LimitLoadToHosts', 'LimitLoadFromHosts'],
  ...['LimitLoadToSessionType', 'LimitLoadToHardware', 'LimitLoadFromHardware', 'Program', 'BundleProgram'],
  ...['ProgramArguments', 'EnableGlobbing', 'EnableTransactions', 'EnablePressuredExit', 'OnDemand', 'ServiceIPC'],
  ...['KeepAlive', 'RunAtLoad', 'RootDirectory', 'WorkingDirectory', 'EnvironmentVariables', 'Umask', 'TimeOut'],
  ...['ExitTimeOut', 'ThrottleInterval', 'InitGroups', 'WatchPaths', 'QueueDirectories', 'StartOnMount'],
  ...['StartInterval', 'StartCalendarInterval', 'StandardInPath', 'StandardOutPath', 'StandardErrorPath', 'Debug'],
  ...['WaitForDebugger', 'SoftResourceLimits', 'HardResourceLimits', 'Nice', 'ProcessType', 'AbandonProcessGroup'],
  ...['LowPriorityIO', 'LowPriorityBackgroundIO', 'MaterializeDatalessFiles', 'LaunchOnlyOnce', 'MachServices'],
  ...['Sockets', 'LaunchEvents', 'HopefullyExitsLast', 'HopefullyExitsFirst', 'SessionCreate', 'LegacyTimers'],
  'AssociatedBundleIdentifiers',
]

test.for(['launchAgent', 'launchDaemon'] as const)('the %s is the file that assets show', async (kind) => {
  const name = kind === 'launchAgent' ? 'launch-agent.plist' : 'launch-daemon.plist'
  await expect(launchdPlist(examplePlan(kind))).toMatchFileSnapshot(path.join(assets, name))
})

test('launchd knows every key, leaves the model servers alone, and starts the agent anew only after an error, every 10 s at most', () => {
  const job = parse(launchdPlist(examplePlan('launchDaemon'))) as Record<string, unknown>
  expect(Object.keys(job).filter((key) => !applesKeys.includes(key))).toEqual([])
  expect(job).toMatchObject({
    Label: expect.stringContaining('llmkube') as string,
    UserName: 'you',
    AbandonProcessGroup: true,
    KeepAlive: { SuccessfulExit: false },
    RunAtLoad: true,
    ThrottleInterval: 10,
    Umask: 0o077,
  })
  expect(parse(launchdPlist(examplePlan('launchAgent')))).not.toHaveProperty('UserName')
})

test.for([
  [30_000, 335],
  [300_000, 335],
  [300_001, 336],
  [3_600_000, 3_635],
] as const)('a drain of %i ms has %i s until SIGKILL', async ([drainMs, seconds]) => {
  const { exitTimeoutS } = await import('../../../../src/installation/service/service-plan.ts')
  expect(exitTimeoutS(drainMs)).toBe(seconds)
})

test.for(oddTexts)('%s comes back as it was', (text) => {
  const flags = new Map([...examplePlan('launchAgent').flags, ['model-store', text]])
  const plan = examplePlan('launchAgent', { flags, program: [text], environment: { ODD: text }, errorFile: text })
  const file = launchdPlist(plan)
  expect(readLaunchdPlist(file)).toMatchObject({
    words: commandLine(plan),
    environment: { ODD: text },
    errorFile: text,
  })
})

test.for([
  ['', /is truncated/],
  [launchdPlist(examplePlan('launchAgent')).slice(0, 700), /is truncated/],
  ['<plist version="1.0"><dict><key>Label</key></plist>', /property list|job of launchd/],
  [
    '<plist version="1.0"><dict><key>Label</key><string>x</string></dict></plist>',
    /no job of launchd \(ProgramArguments: /,
  ],
  ['<plist version="1.0"><array/></plist>', /no job of launchd/],
] as const)('a file that is no job of launchd is refused in one sentence', ([text, why]) => {
  expect(() => readLaunchdPlist(text)).toThrow(PlistError)
  expect(() => readLaunchdPlist(text)).toThrow(why)
})
