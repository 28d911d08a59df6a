import { execa } from 'execa'
import path from 'node:path'
import { describe, expect, inject, test } from 'vitest'
import { untilGone } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { lentWorld } from '../support/lent-world.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { writeMlxModel } from '../support/mlx-writer.ts'
import { OllamaOfPerson } from '../support/ollama.ts'
import { OmlxOfPerson } from '../support/omlx.ts'
import { missingNetworkNamespaces, skipWhen, useLlamaServer, useMlxLm, useOllama } from '../support/skip.ts'

const controlPlane = inject('controlPlane')
const llamaServer = useLlamaServer()
const mlxLm = useMlxLm()
const ollamaProgram = useOllama()
skipWhen('missing' in controlPlane ? controlPlane.missing : undefined)

const body = (model: string, maxTokens = 2) =>
  JSON.stringify({ model, max_tokens: maxTokens, messages: [{ role: 'user', content: 'hello' }] })
const byOllama = { 'metalbar.dev/runtime': 'ollama' }
const byOmlx = { 'metalbar.dev/runtime': 'omlx' }
const omlxKey = 'key-of-the-person'

describe('models of an Ollama and of a sample of oMLX that a person runs, beside a llama-server and an mlx-lm', () => {
  skipWhen(missingNetworkNamespaces())

  test('answer the cluster and this machine, outlive the agent, are evicted, brought back and deleted alone, and what the person has in it stays', async () => {
    if ('missing' in controlPlane) return
    await using ollama = await OllamaOfPerson.start(ollamaProgram)
    await using place = await lentWorld(controlPlane.connection)
    const { other, world, lent } = place
    const [gguf, mlx] = [path.join(lent, 'tiny.gguf'), path.join(lent, 'mlx')]
    await writeMlxModel(mlx)
    await writeLlamaGguf(gguf)
    await ollama.have('mine', gguf)
    await using omlx = await OmlxOfPerson.start({ key: omlxKey, folders: [lent] })
    await omlx.have('own')
    await omlx.ask('POST', '/v1/models/own/load')
    const clientPort = await freePort()
    const programs = ['--llama-server', llamaServer, '--mlx-lm-bin', mlxLm, '--client-port', String(clientPort)]
    const daemons = ['--ollama-port', String(ollama.port), '--omlx-port', String(omlx.port)]
    const start = () => place.start([...programs, ...daemons], { OMLX_BASE_PATH: omlx.basePath })
    const fromCluster = async (service: { readonly port?: number | undefined }, where: string, ...more: string[]) => {
      const url = `http://${other.here}:${service.port}${where}`
      const options = ['-sS', '--max-time', '60', '-w', '%{http_code}', ...more]
      const [command, ...args] = other.enter(['curl', ...options, url])
      const { stdout } = await execa(command, args)
      return { status: Number(stdout.slice(-3)), text: stdout.slice(0, -3) }
    }
    const answers = async (name: string, service: { readonly port?: number | undefined }) => {
      const there = await fromCluster(service, '/v1/chat/completions', '-d', body('whatever-it-is-called'))
      const here = await fetch(`http://127.0.0.1:${clientPort}/v1/chat/completions`, {
        ...{ method: 'POST', headers: { 'content-type': 'application/json' }, body: body(name) },
      })
      return [there.text, await here.text()].map((text) => (JSON.parse(text) as { object?: string }).object)
    }
    const both = ['chat.completion', 'chat.completion']

    await using first = await start()
    await world.apply('words', { source: gguf })
    await world.applyModel('apples', { source: mlx, format: 'mlx' })
    await world.applyService('apples')
    await world.applyModel('pears', { source: gguf })
    await world.applyService('pears', { annotations: byOllama })
    await world.applyService('plums', { annotations: byOllama, modelRef: 'pears' })
    await world.applyService('kiwis', { annotations: byOmlx, modelRef: 'apples' })
    const names = ['words', 'apples', 'pears', 'plums', 'kiwis'] as const
    const served = new Map<string, Awaited<ReturnType<typeof first.service>>>()
    for (const name of names) served.set(name, await first.service(name, 'ready'))
    const of = (name: string) => served.get(name) ?? {}
    for (const name of names) expect([name, await answers(name, of(name))]).toEqual([name, both])
    expect(names.map((name) => served.get(name)?.runtime)).toEqual([
      ...['llama-server', 'mlx-lm', 'ollama', 'ollama', 'omlx'],
    ])
    expect(await omlx.loaded()).toEqual(['mlx', 'own'])
    const loaded = await ollama.loaded()
    expect([loaded.length, await ollama.models()]).toEqual([1, [...loaded, 'mine:latest'].toSorted()])
    for (const name of ['apples', 'pears']) {
      expect(await world.published(name)).toEqual({ address: other.here, port: served.get(name)?.port, ready: true })
    }
    const said = 'Served by mlx-lm, chosen by the format mlx of its Model.'
    await eventually(async () => (await world.conditionMessage('apples'))?.endsWith(said) === true, { what: said })
    for (const name of ['words', 'apples']) {
      // As LLMKube's router asks the backends of a ModelRouter: at the port of the Service, by its name.
      const host = ['-H', `host: ${name}.${world.namespace}.svc.cluster.local:8080`]
      const ports = expect.arrayContaining([expect.objectContaining({ name: 'http', port: 8080 })]) as unknown[]
      expect(await world.service(name)).toMatchObject({ spec: { ports } })
      expect((await fromCluster(of(name), '/health', ...host)).status).toBe(200)
      expect((await fromCluster(of(name), '/v1/chat/completions', ...host, '-d', body('any'))).status).toBe(200)
    }
    // Whoever reached mlx-lm itself could have it load anything: only the gateway does.
    expect((await fromCluster(of('apples'), '/v1/models')).status).toBe(403)

    expect((await fromCluster(of('pears'), '/health')).status).toBe(200)
    for (const where of ['/api/tags', '/api/ps', '/v1/models']) {
      expect([where, (await fromCluster(of('pears'), where)).status]).toEqual([where, 403])
    }
    const spoil = JSON.stringify({ model: 'mine', name: 'mine' })
    for (const [method, where] of [
      ['POST', '/api/pull'],
      ['DELETE', '/api/delete'],
      ['POST', '/api/create'],
    ] as const) {
      const { status } = await fromCluster(of('pears'), where, '-X', method, '-d', spoil)
      expect([where, status]).toEqual([where, 403])
    }
    const takeAway = JSON.stringify({
      model: 'mine',
      keep_alive: 0,
      Keep_Alive: 0,
      prompt: 'a',
      stream: false,
      options: { num_predict: 1 },
    })
    expect((await fromCluster(of('pears'), '/api/generate', '-d', takeAway)).status).toBe(200)
    expect(await ollama.loaded()).toEqual(loaded)

    expect((await fromCluster(of('kiwis'), '/health')).status).toBe(200)
    for (const [method, where] of [
      ['GET', '/v1/models'],
      ['GET', '/v1/models/status'],
      ['GET', '/admin/api/stats'],
      ['POST', '/v1/models/own/unload'],
      ['POST', '/v1/models/own/load'],
      ['POST', '/v1/mcp/execute'],
    ] as const) {
      const { status } = await fromCluster(of('kiwis'), where, '-X', method)
      expect([where, status]).toEqual([where, 403])
    }
    const foreign = ['-H', 'authorization: Bearer foreign', '-H', 'x-api-key: foreign']
    expect((await fromCluster(of('kiwis'), '/v1/chat/completions', ...foreign, '-d', body('own'))).text).toContain(
      '"model":"mlx"',
    )

    await first.run('shutdown', '--keep-serving')
    await first.exited
    expect((await fromCluster(of('kiwis'), '/v1/chat/completions', '-d', body('kiwis'))).status).toBe(200)
    expect((await fromCluster(of('pears'), '/v1/chat/completions', '-d', body('pears'))).status).toBe(200)
    await using second = await start()
    for (const name of names) {
      const { pid, port } = await second.service(name, 'ready')
      expect([name, pid, port]).toEqual([name, served.get(name)?.pid, served.get(name)?.port])
    }
    expect(await answers('pears', of('pears'))).toEqual(both)
    expect(await answers('kiwis', of('kiwis'))).toEqual(both)

    const service = (name: string) => `${world.namespace}/${name}`
    for (const name of ['words', 'apples']) {
      expect((await second.run('evict', service(name))).code).toBe(0)
      await untilGone(served.get(name)?.pid ?? 0)
      expect((await second.run('bring-back', service(name))).code).toBe(0)
      served.set(name, await second.service(name, 'ready'))
      expect([name, await answers(name, of(name))]).toEqual([name, both])
    }
    // Ollama has the weights of one file in memory once: as one model for both services, and not as two.
    const { memory } = await second.service('plums', 'ready')
    expect(memory?.notes?.join()).toContain(`memory with ${service('pears')}: the memory counts once`)
    await world.patchSpec('plums', { contextSize: 512 })
    const { message } = await second.service('plums', 'waiting', 'InsufficientMemory')
    expect(message).toContain(`${service('pears')} has the same weights in that daemon with different settings`)
    expect([await ollama.loaded(), await world.published('plums')]).toMatchObject([loaded, { ready: false }])
    await world.patchSpec('plums', { contextSize: null })
    served.set('plums', await second.service('plums', 'ready'))

    expect((await second.run('evict', service('pears'))).code).toBe(0)
    await second.service('pears', 'stopped')
    expect([await ollama.loaded(), await answers('plums', of('plums'))]).toEqual([loaded, both])
    const { stdout: log } = await second.run('logs', service('plums'))
    expect(log).toMatch(/It is loaded: .* in memory, after/)
    // Far more than is generated while a command starts, however busy this machine is.
    const asked = Array.from({ length: 100 }, async () => {
      const answer = await fetch(`http://127.0.0.1:${clientPort}/v1/chat/completions`, {
        ...{ method: 'POST', headers: { 'content-type': 'application/json' }, body: body('plums', 1_000_000) },
      })
      return `${answer.status} ${await answer.text()}`
    })
    expect((await second.run('evict', service('plums'))).code).toBe(0)
    await second.service('plums', 'stopping')
    expect((await second.run('stop', '--now', service('plums'))).code).toBe(0)
    expect((await Promise.all(asked)).filter((said) => said.includes('this request was cut'))).not.toEqual([])
    await eventually(async () => (await ollama.loaded()).length === 0)
    expect((await second.run('evict', service('kiwis'))).code).toBe(0)
    await eventually(async () => (await omlx.loaded()).join() === 'own')
    for (const name of ['pears', 'kiwis']) {
      expect((await second.run('bring-back', service(name))).code).toBe(0)
      served.set(name, await second.service(name, 'ready'))
      expect([name, await answers(name, of(name))]).toEqual([name, both])
    }

    // What Ollama drops by itself is withdrawn, and brought back.
    await ollama.ask('POST', '/api/generate', { model: loaded[0], keep_alive: 0 })
    await eventually(async () => (await second.service('pears', 'ready')).restarts > 0)
    await eventually(async () => (await ollama.loaded()).length === 1)
    await omlx.ask('POST', '/v1/models/mlx/unload')
    await eventually(async () => (await second.service('kiwis', 'ready')).restarts > 0)
    // So is an Ollama that was started again.
    await ollama.stop()
    await eventually(async () => (await world.published('pears'))?.ready !== true)
    await ollama.start()
    await eventually(async () => (await world.published('pears'))?.ready === true)
    for (const name of ['pears', 'kiwis']) {
      served.set(name, await second.service(name, 'ready'))
      expect([name, await answers(name, of(name))]).toEqual([name, both])
    }

    for (const name of ['apples', 'pears', 'plums', 'kiwis']) await world.deleteService(name)
    await untilGone(served.get('apples')?.pid ?? 0)
    await eventually(async () => (await ollama.models()).join() === 'mine:latest')
    expect(await ollama.loaded()).toEqual([])
    await eventually(async () => (await omlx.loaded()).join() === 'own')
    const { stdout: told } = await execa('grep', ['-rl', omlxKey, path.join(world.folder, 'agent')], { reject: false })
    expect([told, JSON.stringify([first.log, second.log])]).toEqual(['', expect.not.stringContaining(omlxKey)])
    expect(await answers('words', of('words'))).toEqual(both)
    expect((await second.run('shutdown')).code).toBe(0)
    await second.exited
    await untilGone(served.get('words')?.pid ?? 0)
    expect(
      (
        await ollama.ask('POST', '/api/generate', {
          model: 'mine',
          prompt: 'a',
          stream: false,
          options: { num_predict: 1 },
        })
      ).status,
    ).toBe(200)
  })
})
