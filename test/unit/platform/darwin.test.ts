import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { DarwinPlatform } from '../../../src/agent-core/platform/darwin.ts'
import { PlatformError } from '../../../src/agent-core/platform/platform.ts'

const recorded = (name: string) => readFileSync(new URL(`recorded/${name}`, import.meta.url), 'utf8')

/** Answers like the commands of a Mac, and refuses any call that is not listed. */
function mac(answers: Record<string, string | { exitCode: number; stdout: string }>) {
  return new DarwinPlatform({
    run: (command, args) => {
      const answer = answers[[command, ...args].join(' ')]
      if (answer === undefined) return Promise.reject(new Error(`not recorded: ${[command, ...args].join(' ')}`))
      return Promise.resolve(typeof answer === 'string' ? { exitCode: 0, stdout: answer } : answer)
    },
  })
}

const psAll = '/bin/ps -axww -o pid=,pgid=,stat=,rss=,time=,lstart=,command='
const lsofOn52011 = '/usr/sbin/lsof -nP -iTCP:52011 -sTCP:LISTEN -Fpgc'
const displays = '/usr/sbin/system_profiler SPDisplaysDataType -json'
const isArm = '/usr/sbin/sysctl -n hw.optional.arm64'

describe('memory on macOS', () => {
  test('counts free, inactive, speculative and purgeable pages as available', async () => {
    const platform = mac({
      '/usr/sbin/sysctl -n hw.memsize': '68719476736\n',
      '/usr/bin/vm_stat': recorded('vm_stat.txt'),
    })
    expect(await platform.memory()).toEqual({
      totalBytes: 64 * 1024 ** 3,
      availableBytes: (51_230 + 598_765 + 4_321 + 12_345) * 16_384,
    })
  })

  test('an answer that cannot be read is an error, never zero', async () => {
    const platform = mac({ '/usr/sbin/sysctl -n hw.memsize': '68719476736\n', '/usr/bin/vm_stat': 'no such thing' })
    await expect(platform.memory()).rejects.toThrow(PlatformError)
  })
})

describe('processes on macOS', () => {
  test('a group is its living members, with start time, command line and resident bytes', async () => {
    expect(await mac({ [psAll]: recorded('ps.txt') }).processGroup(934)).toEqual([
      {
        pid: 934,
        groupId: 934,
        startTime: 'Sat Nov 21 09:14:03 2026',
        commandLine:
          '/opt/homebrew/bin/llama-server --model /Users/ada/My Models/qwen.gguf --host 0.0.0.0 --port 52011',
        residentBytes: 17_825_792 * 1024,
        cpuMs: 7_384_560,
        suspended: false,
      },
      {
        pid: 935,
        groupId: 934,
        startTime: 'Sat Nov 7 09:14:04 2026',
        commandLine: '/usr/bin/python3 worker.py',
        residentBytes: 20_480 * 1024,
        cpuMs: 70,
        suspended: true,
      },
    ])
  })

  test('a process that is gone or a zombie is no process', async () => {
    const one = (pid: number) => `/bin/ps -ww -o pid=,pgid=,stat=,rss=,time=,lstart=,command= -p ${pid}`
    const platform = mac({
      [one(77)]: { exitCode: 1, stdout: '' },
      [one(936)]: '  936   934 Z          0   0:00.00 Sat Nov 21 09:14:05 2026     (llama-server)\n',
    })
    expect([await platform.process(77), await platform.process(936)]).toEqual([undefined, undefined])
  })

  test('listeners of a port are told apart by process group', async () => {
    const platform = mac({ [lsofOn52011]: recorded('lsof.txt') })
    expect(await platform.portListeners(52_011, 934)).toEqual({
      ours: [934],
      others: [{ pid: 411, command: 'ControlCenter' }],
    })
  })

  test('a port nobody is seen to hold is not ours', async () => {
    const platform = mac({ [lsofOn52011]: { exitCode: 1, stdout: '' } })
    expect(await platform.portListeners(52_011, 934)).toEqual({ ours: [], others: [] })
  })
})

test('connections to a port on macOS are counted at their own end, whatever their address and family', async () => {
  const platform = mac({ '/usr/sbin/netstat -anp tcp': recorded('netstat.txt') })
  expect([await platform.establishedConnections(52_011), await platform.establishedConnections(1)]).toEqual([3, 0])
})

describe('what an agent takes over on macOS', () => {
  const psOwn = '/bin/ps -xww -o pid=,pgid=,stat=,rss=,time=,lstart=,command='
  const lsofPlaces = `/usr/sbin/lsof -nPa -u ${process.getuid?.()} -d cwd,1 -Ffn`

  test('workplaces are read, also where lsof could not look at everything', async () => {
    const platform = mac({ [lsofPlaces]: { exitCode: 1, stdout: recorded('lsof-workplaces.txt') } })
    expect(await platform.workplaces()).toEqual([
      { pid: 812, workingDirectory: '/Users/ada' },
      {
        pid: 934,
        workingDirectory: '/Users/ada/Library/Application Support/Metalbar/work/team.qwen',
        output: '/Users/ada/Library/Application Support/Metalbar/logs/team.qwen.log',
      },
      { pid: 990, workingDirectory: '/Users/ada/src', output: '/dev/ttys003' },
    ])
  })

  test('a boot has an id, and no answer is an error', async () => {
    const sysctl = '/usr/sbin/sysctl -n kern.bootsessionuuid'
    expect(await mac({ [sysctl]: '5E2A9C1B-0F6D-4B7E-9A55-1C2D3E4F5A6B\n' }).bootId()).toBe(
      '5E2A9C1B-0F6D-4B7E-9A55-1C2D3E4F5A6B',
    )
    await expect(mac({ [sysctl]: { exitCode: 1, stdout: '' } }).bootId()).rejects.toThrow(PlatformError)
  })

  test('a login at the screen is known by its loginwindow, and without one there is none', async () => {
    const own = recorded('ps-own.txt')
    const withoutScreen = own.replace(/^.*loginwindow.*\n/m, '')
    expect([
      await mac({ [psOwn]: own }).loginSession(),
      await mac({ [psOwn]: withoutScreen }).loginSession(),
      (await mac({ [psOwn]: own }).processes()).map(({ pid }) => pid),
    ]).toEqual(['388 Mon Nov 16 08:02:40 2026', undefined, [388, 812, 934]])
  })

  test.each([
    ['/opt/homebrew/bin/llama-server --port 1 HOME=/Users/ada METALBAR_SERVING_DIGEST=ab12 LANG=C\n', 'ab12'],
    ['/opt/homebrew/bin/llama-server --port 1\n', undefined],
    ['', undefined],
  ])('a variable is found behind the arguments (%j)', async (stdout, value) => {
    const platform = mac({ '/bin/ps -wwE -o command= -p 934': stdout })
    expect(await platform.variableOf(934, 'METALBAR_SERVING_DIGEST')).toBe(value)
  })

  test('a process runs as long as it can be signalled', async () => {
    const platform = mac({})
    expect([await platform.isRunning({ pid: process.pid }), await platform.isRunning({ pid: 2 ** 22 + 1 })]).toEqual([
      true,
      false,
    ])
  })
})

describe('the GPU of a Mac', () => {
  test('Apple silicon has Metal, without asking the slow command', async () => {
    expect(await mac({ [isArm]: '1\n' }).metal()).toMatchObject({ available: true })
  })

  test.each([
    ['system_profiler-apple-silicon.json', true],
    ['system_profiler-no-metal.json', false],
  ])('an Intel Mac is judged by what %s says', async (name, available) => {
    const platform = mac({ [isArm]: { exitCode: 1, stdout: '' }, [displays]: recorded(name) })
    expect(await platform.metal()).toMatchObject({ available })
  })

  test.each([
    ['8\n', 8],
    ['', undefined],
    ['0\n', undefined],
    ['unknown oid', undefined],
  ])('performance cores from %j are %s', async (stdout, cores) => {
    const platform = mac({ '/usr/sbin/sysctl -n hw.perflevel0.physicalcpu': { exitCode: 0, stdout } })
    expect(await platform.performanceCores()).toBe(cores)
  })
})
