import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { CommandResult } from '../../../src/agent-core/platform/command.ts'
import { DarwinPlatform } from '../../../src/agent-core/platform/darwin.ts'
import { PlatformError } from '../../../src/agent-core/platform/platform.ts'

const afterSources = (name: string) => readFileSync(new URL(`after-sources/${name}`, import.meta.url), 'utf8')

/** Answers like the commands of a Mac, and refuses any call that is not listed. */
function mac(answers: Record<string, string | CommandResult>) {
  return new DarwinPlatform({
    run: (command, args) => {
      const answer = answers[[command, ...args].join(' ')]
      if (answer === undefined) return Promise.reject(new Error(`not written down: ${[command, ...args].join(' ')}`))
      return Promise.resolve(typeof answer === 'string' ? { exitCode: 0, stdout: answer } : answer)
    },
  })
}

const psAll = '/bin/ps -axww -o pid=,pgid=,stat=,rss=,time=,lstart=,command='
const lsofOn52011 = '/usr/sbin/lsof -nP -iTCP:52011 -sTCP:LISTEN -Fpgcnu'
const displays = '/usr/sbin/system_profiler SPDisplaysDataType -json'
const isArm = '/usr/sbin/sysctl -n hw.optional.arm64'

test('a folder is left out of the backups of Time Machine by an attribute of its own, and a refusal is told', async () => {
  const line = '/usr/bin/tmutil addexclusion /models of mine'
  await expect(mac({ [line]: '' }).leaveOutOfBackups('/models of mine')).resolves.toBeUndefined()
  const refused = mac({ [line]: { exitCode: 213, stdout: '', stderr: 'The volume has no such attributes.\n' } })
  await expect(refused.leaveOutOfBackups('/models of mine')).rejects.toThrow('The volume has no such attributes.')
})

describe('memory on macOS', () => {
  test('counts free, file-backed and purgeable pages as available, each once and none that would have to be compressed', async () => {
    const platform = mac({
      '/usr/sbin/sysctl -n hw.memsize': '68719476736\n',
      '/usr/bin/vm_stat': afterSources('vm_stat.txt'),
    })
    expect(await platform.memory()).toEqual({
      totalBytes: 64 * 1024 ** 3,
      availableBytes: (51_230 + 412_345 + 12_345) * 16_384,
      wiredBytes: 187_654 * 16_384,
      isCompressed: true,
    })
  })

  test.each<[string, (text: string) => string]>([
    ['cut within a number', (text) => text.slice(0, text.indexOf('598765') + 3)],
    ['cut after the first lines', (text) => text.slice(0, text.indexOf('Pages inactive'))],
    ['cut within a later line', (text) => text.slice(0, text.indexOf('345678.'))],
    ['German thousands', (text) => text.replace('598765', '598.765')],
    ['French thousands', (text) => text.replace('412345', '412\u202f345')],
    ['English thousands', (text) => text.replace('51230', '51,230')],
    ['another language', (text) => text.replace('Pages free', 'Freie Seiten')],
    ['no page size', (text) => text.replace('16384', '')],
    ['nothing', () => ''],
  ])('vm_stat with %s is an error, never a low figure', async (_, spoil) => {
    const answer = {
      '/usr/sbin/sysctl -n hw.memsize': '68719476736\n',
      '/usr/bin/vm_stat': spoil(afterSources('vm_stat.txt')),
    }
    await expect(mac(answer).memory()).rejects.toThrow('vm_stat does not say how much memory is available.')
  })

  test.each(['', 'unknown oid\n', '68,7\n', '64 GB\n', '-1\n'])('a memory size of %j is an error', async (size) => {
    const answer = { '/usr/sbin/sysctl -n hw.memsize': size, '/usr/bin/vm_stat': afterSources('vm_stat.txt') }
    await expect(mac(answer).memory()).rejects.toThrow('sysctl does not say how much memory this Mac has.')
  })

  test("the kernel's pressure level is one of three numbers, and anything else is no level", async () => {
    const levels = ['1\n', '2\n', '4\n', '0\n', '3\n', '1,0\n', '', 'constructor'].map((stdout) =>
      mac({ '/usr/sbin/sysctl -n kern.memorystatus_vm_pressure_level': stdout }).memoryPressureLevel(),
    )
    expect(await Promise.all(levels)).toEqual(['normal', 'warning', 'critical', ...Array.from({ length: 5 })])
  })

  test.each([
    ['57344\n', 56 * 1024 ** 3],
    ['0\n', undefined],
    ['', undefined],
    ['57.344\n', undefined],
  ])('a GPU limit of %j is %d bytes', async (stdout, bytes) => {
    expect(await mac({ '/usr/sbin/sysctl -n iogpu.wired_limit_mb': stdout }).gpuMemoryLimit()).toBe(bytes)
  })

  test('an answer that cannot be read is an error, never zero', async () => {
    const platform = mac({ '/usr/sbin/sysctl -n hw.memsize': '68719476736\n', '/usr/bin/vm_stat': 'no such thing' })
    await expect(platform.memory()).rejects.toThrow(PlatformError)
  })
})

describe('who has the memory on macOS', () => {
  const footprint = '/usr/bin/footprint --noCategories -f bytes -p 934 -p 935 -p 936'
  const ps = (pids: string) => `/bin/ps -ww -o pid=,rss=,comm= -p ${pids}`

  test('one command tells what the kernel charges each process, and ps those that it does not show', async () => {
    const platform = mac({ [footprint]: afterSources('footprint.txt'), [ps('936')]: '  936  20480 /usr/bin/python3\n' })
    expect(await platform.footprints([934, 935, 936])).toEqual(
      new Map([
        [934, 18_253_611_008],
        [935, 20_971_520],
        [936, 20_480 * 1024],
      ]),
    )
  })

  test('a process that is gone is left out, and for no process no command is run', async () => {
    const platform = mac({ [footprint]: afterSources('footprint.txt'), [ps('936')]: { exitCode: 1, stdout: '' } })
    expect([...(await platform.footprints([934, 935, 936])).keys()]).toEqual([934, 935])
    expect(await mac({}).footprints([])).toEqual(new Map())
  })

  test('a pid that is gone, one that may not be read and a stranger found by a part of its name have no footprint', async () => {
    const asked = '/usr/bin/footprint --noCategories -f bytes -p 934 -p 935 -p 937'
    const platform = mac({
      [asked]: { exitCode: 1, stdout: afterSources('footprint-unreadable.txt') },
      [ps('935,937')]: { exitCode: 1, stdout: '' },
    })
    expect([...(await platform.footprints([934, 935, 937]))]).toEqual([[934, 18_253_611_008]])
  })

  test('a footprint that takes too long is one from ps', async () => {
    const platform = new DarwinPlatform({
      run: (command) =>
        command.endsWith('footprint')
          ? Promise.reject(new PlatformError('footprint did not answer within 10000 ms.'))
          : Promise.resolve({ exitCode: 0, stdout: '  934  100 /opt/homebrew/bin/llama-server\n' }),
    })
    expect(await platform.footprints([934])).toEqual(new Map([[934, 102_400]]))
  })

  test('applications are named by their outermost bundle, with all their helpers, biggest first', async () => {
    const platform = mac({ '/bin/ps -axww -o pid=,rss=,comm=': afterSources('ps-applications.txt') })
    expect(await platform.biggestProcesses(3, new Set([934]))).toEqual([
      { name: 'Google Chrome', bytes: (512_000 + 1_048_576 + 204_800) * 1024, pid: 1203 },
      { name: 'Xcode', bytes: 1_500_000 * 1024, pid: 2210 },
      { name: 'WindowServer', bytes: 300_000 * 1024, pid: 155 },
    ])
  })
})

describe('processes on macOS', () => {
  test('a group is its living members, with start time, command line and resident bytes', async () => {
    expect(await mac({ [psAll]: afterSources('ps.txt') }).processGroup(934)).toEqual([
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
      [one(936)]: '  936   934 Z          0   0:00.00 Sat Nov 21 09:14:05 2026     <defunct>\n',
    })
    expect([await platform.process(77), await platform.process(936)]).toEqual([undefined, undefined])
  })

  test('listeners of a port are told apart by process group', async () => {
    const platform = mac({ [lsofOn52011]: afterSources('lsof.txt') })
    expect(await platform.portListeners(52_011, 934)).toEqual({
      ours: [934],
      others: [{ pid: 411, command: 'ControlCenter' }],
    })
  })

  test('a port is our own where all who listen there are seen, and are this user', async () => {
    const listener = (user: number) => `p${user}\ng1\nu${user}\ncollama\nf12\nn127.0.0.1:52011\n`
    const own = process.geteuid?.() ?? 0
    const isOwn = (stdout: string) => mac({ [lsofOn52011]: { exitCode: 0, stdout } }).isListenerOwn(52_011, '127.0.0.1')
    expect([await isOwn(listener(own)), await isOwn(listener(own) + listener(own + 1)), await isOwn('')]).toEqual([
      ...[true, false, false],
    ])
  })

  test('of the listeners, only who gets what is sent to an address counts, where one is named', async () => {
    const stdout =
      'p934\ng934\ncllama-server\nf12\nn127.0.0.1:52011\np411\ng411\ncnode\nf9\nn192.168.1.2:52011\np5\ng5\ncall\nf9\nn*:52011\n'
    const platform = mac({ [lsofOn52011]: { exitCode: 0, stdout } })
    const all = { pid: 5, command: 'all' }
    expect(await platform.portListeners(52_011, 934, '127.0.0.1')).toEqual({ ours: [934], others: [all] })
    expect(await platform.portListeners(52_011, 934, '192.168.1.2')).toEqual({
      ...{ ours: [], others: [{ pid: 411, command: 'node' }, all] },
    })
  })
})

test('connections to a port on macOS are counted at their own end, whatever their address and family', async () => {
  const platform = mac({ '/usr/sbin/netstat -anp tcp': afterSources('netstat.txt') })
  expect([await platform.establishedConnections(52_011), await platform.establishedConnections(1)]).toEqual([3, 0])
})

describe('what an agent takes over on macOS', () => {
  const psOwn = '/bin/ps -xww -o pid=,pgid=,stat=,rss=,time=,lstart=,command='
  const lsofPlaces = `/usr/sbin/lsof -nPa -u ${process.getuid?.()} -d cwd,1 -Ffn`

  test('workplaces are read, also where lsof could not look at everything', async () => {
    const platform = mac({ [lsofPlaces]: { exitCode: 1, stdout: afterSources('lsof-workplaces.txt') } })
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

  test('processes of this user are listed, and members of groups found', async () => {
    const platform = mac({ [psOwn]: afterSources('ps-own.txt') })
    expect([
      (await platform.processes()).map(({ pid }) => pid),
      await platform.membersOf(new Set([934, 812, 7])),
    ]).toEqual([
      [812, 934],
      new Map([
        [812, [812]],
        [934, [934]],
      ]),
    ])
  })

  test('a login at the screen is known by the loginwindow that acts for this user, whoever started it', async () => {
    const all = '/bin/ps -axww -o uid=,pid=,lstart=,command='
    const sessions = afterSources('ps-sessions.txt').replaceAll(/^ +501 /gm, `${process.geteuid?.()} `)
    const session = (stdout: string) => mac({ [all]: stdout }).loginSession()
    expect([
      await session(sessions),
      await session(sessions.replaceAll(/\/System\S+loginwindow console/g, '(loginwindow)')),
      await session(sessions.replaceAll(/^\d+ +388 .*\n/gm, '')),
    ]).toEqual(['388 Mon Nov 16 08:02:40 2026', '388 Mon Nov 16 08:02:40 2026', undefined])
    await expect(mac({ [all]: { exitCode: 1, stdout: '' } }).loginSession()).rejects.toThrow(PlatformError)
  })

  test.each([
    ['/opt/homebrew/bin/llama-server --port 1 HOME=/Users/ada METALBAR_SERVING_DIGEST=ab12 LANG=C\n', 'ab12'],
    ['/opt/homebrew/bin/llama-server --port 1\n', undefined],
    ['', undefined],
  ])('a variable is found behind the arguments (%j)', async (stdout, value) => {
    const platform = mac({ '/bin/ps -wwE -o command= -p 934': stdout })
    expect(await platform.variableOf(934, 'METALBAR_SERVING_DIGEST')).toBe(value)
  })
})

describe('the GPU of a Mac', () => {
  test('Apple silicon has Metal, without asking the slow command', async () => {
    expect(await mac({ [isArm]: '1\n' }).metal()).toMatchObject({ available: true, isNotice: false })
  })

  test.each([
    ['system_profiler-apple-silicon.json', true],
    ['system_profiler-no-metal.json', false],
  ])('an Intel Mac is judged by what %s says', async (name, available) => {
    const platform = mac({ [isArm]: { exitCode: 1, stdout: '' }, [displays]: afterSources(name) })
    expect(await platform.metal()).toMatchObject({ available, isNotice: true })
  })

  const chip = (...levels: readonly (readonly [name: string, cores: string])[]): Record<string, string> =>
    Object.fromEntries<string>([
      ['/usr/sbin/sysctl -n hw.nperflevels', `${levels.length}\n`],
      ...levels.flatMap(([name, cores], level): [string, string][] => [
        [`/usr/sbin/sysctl -n hw.perflevel${level}.name`, `${name}\n`],
        [`/usr/sbin/sysctl -n hw.perflevel${level}.physicalcpu`, `${cores}\n`],
      ]),
    ])

  test.each([
    ['two levels', chip(['Performance', '8'], ['Efficiency', '4']), 8],
    ['three levels', chip(['Super', '2'], ['Performance', '4'], ['Efficiency', '6']), 6],
    ['two levels and none that saves power', chip(['Super', '6'], ['Performance', '12']), 18],
    ['one level', chip(['Standard', '6']), 6],
    ['levels of other names', chip(['Highest', '2'], ['Performance', '6'], ['Lowest', '4']), 8],
    ['a level whose cores are not told', chip(['Super', 'unknown oid'], ['Performance', '4']), undefined],
    ['no levels', { '/usr/sbin/sysctl -n hw.nperflevels': { exitCode: 1, stdout: '' } }, undefined],
    ['nonsense', { '/usr/sbin/sysctl -n hw.nperflevels': '0\n' }, undefined],
  ] as const)('performance cores of a chip of %s', async (_, answers, cores) => {
    expect(await mac(answers).performanceCores()).toBe(cores)
  })
})

describe('the firewall of macOS', () => {
  const tool = '/usr/libexec/ApplicationFirewall/socketfilterfw'
  const on = { [`${tool} --getglobalstate`]: 'Firewall is enabled. (State = 1)\n' }
  const open = { [`${tool} --getblockall`]: 'Firewall has block all state set to disabled.\n' }

  test('lets the programs through that its list allows, each in a line of its own or in two', async () => {
    const platform = mac({ ...on, ...open, [`${tool} --listapps`]: afterSources('socketfilterfw-listapps.txt') })
    expect(await platform.firewall()).toEqual({
      state: 'byProgram',
      allowed: new Set(['/opt/homebrew/Cellar/llama.cpp/6710/bin/llama-server', '/Applications/Tool (Free).app']),
    })
  })

  test.each<[string, Record<string, string>, object | undefined]>([
    ['is off', { [`${tool} --getglobalstate`]: 'Firewall is disabled. (State = 0)\n' }, { state: 'off' }],
    [
      'blocks everything',
      { [`${tool} --getglobalstate`]: 'Firewall is blocking all non-essential incoming connections. (State = 2)\n' },
      { state: 'blocksAll' },
    ],
    [
      'is set to block everything',
      { ...on, [`${tool} --getblockall`]: 'Firewall has block all state set to enabled.\n' },
      { state: 'blocksAll' },
    ],
    ['says something else', { [`${tool} --getglobalstate`]: 'Brandmauer aktiv.\n' }, undefined],
  ])('that %s is told so', async (_, answers, expected) => {
    expect(await mac(answers).firewall()).toEqual(expected)
  })
})
