import type { Command } from 'commander'
import { z } from 'zod'
import type { CommandInput, ServiceRef } from '../../contract/commands.ts'
import { agentVerb, namespaceOption, sendAbout, type VerbContext } from './verb.ts'

interface ServiceVerb {
  readonly name: string
  readonly does: string
  readonly option?: readonly [flags: string, does: string]
  readonly command: (service: ServiceRef, options: z.infer<typeof switches>) => CommandInput
}

const switches = z.object({
  here: z.boolean().default(false),
  off: z.boolean().default(false),
  evenIfManaged: z.boolean().default(false),
})

const serviceVerbs: readonly ServiceVerb[] = [
  {
    name: 'stop',
    does: 'suspend a service in the cluster; requests in flight may finish',
    option: ['--here', 'only on this machine, whatever the cluster says'],
    command: (service, { here }) => ({ name: 'stop', service, scope: here ? 'here' : 'cluster' }),
  },
  { name: 'start', does: 'undo a stop', command: (service) => ({ name: 'start', service }) },
  { name: 'restart', does: 'stop the server and start it again', command: (service) => ({ name: 'restart', service }) },
  {
    name: 'evict',
    does: 'take a model out of memory on this machine, until it is brought back',
    command: (service) => ({ name: 'evict', service }),
  },
  { name: 'bring-back', does: 'undo an eviction', command: (service) => ({ name: 'bringBack', service }) },
  {
    name: 'protect',
    does: 'never evict this model',
    option: ['--off', 'it may be evicted again'],
    command: (service, { off }) => ({ name: 'protect', service, protect: !off }),
  },
  {
    name: 'cancel',
    does: 'cancel the download of a model',
    command: (service) => ({ name: 'cancelDownload', service }),
  },
  {
    name: 'skip-drain',
    does: 'end a stopping server at once, with the requests it still answers',
    command: (service) => ({ name: 'skipDrain', service }),
  },
  {
    name: 'delete',
    does: 'delete a service from the cluster, and its Model where both were added together and nobody else uses it',
    option: ['--even-if-managed', 'also where a tool such as Argo CD keeps it, which brings it back'],
    command: (service, { evenIfManaged }) => ({ name: 'deleteModel', service, evenIfManaged }),
  },
  { name: 'release', does: 'let another machine serve it', command: (service) => ({ name: 'release', service }) },
]

export function serviceVerbCommands(context: VerbContext): Command[] {
  return serviceVerbs.map(({ name, does, option, command }) => {
    const verb = agentVerb(name, does, context)
      .argument('<service>', 'name of the service, or namespace/name')
      .option(...namespaceOption)
    if (option) verb.option(...option)
    return verb.action((service: string, options: unknown) =>
      sendAbout(context, service, options, (ref) => command(ref, switches.parse(options))),
    )
  })
}
