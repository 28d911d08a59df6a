import { Command } from 'commander'
import { z } from 'zod'
import { contextDoubt } from '../../contract/commands.ts'
import { columns } from '../text.ts'
import { agentVerb, run, sendPlain, type VerbContext } from './verb.ts'

/** What concerns the machine as a whole. */
export function nodeVerbCommands(context: VerbContext): Command[] {
  return [
    agentVerb('pause', 'withdraw every endpoint, with the models kept in memory', context).action((options: unknown) =>
      sendPlain(context, options, { name: 'pauseNode' }),
    ),
    agentVerb('resume', 'undo a pause', context).action((options: unknown) =>
      sendPlain(context, options, { name: 'resumeNode' }),
    ),
    agentVerb('serve-again', 'serve what is held back since this machine ended while models ran', context).action(
      (options: unknown) => sendPlain(context, options, { name: 'serveAgain' }),
    ),
    agentVerb('resync', 'read everything in the cluster anew', context).action((options: unknown) =>
      sendPlain(context, options, { name: 'resync' }),
    ),
    agentVerb('shutdown', 'end the agent: withdraw, let requests finish, stop the servers', context)
      .option('--keep-serving', 'leave the servers and their endpoints as they are, for the next agent to adopt')
      .action((options: unknown) => {
        const { keepServing } = z.object({ keepServing: z.boolean().default(false) }).parse(options)
        return sendPlain(context, options, { name: 'shutdown', keepServing })
      }),
    contextCommand(context),
    hostAddressCommand(context),
  ]
}

function contextCommand(context: VerbContext): Command {
  const list = agentVerb('list', 'the contexts of the kubeconfig', context).action((options: unknown) =>
    run(context, options, async (agent, { json }) => {
      const answer = await agent.query({ name: 'contexts' })
      const rows = answer.contexts.map(({ name, server, inUse, isDefault }) => [
        inUse ? '*' : isDefault ? '(default)' : '',
        name,
        server,
      ])
      context.io.stdout.write(json ? `${JSON.stringify(answer)}\n` : columns(['', 'NAME', 'SERVER'], rows))
      return 0
    }),
  )
  const use = agentVerb('use', 'serve the cluster of another context', context)
    .argument('<context>', 'its name in the kubeconfig')
    .option('--anyway', 'also where its name says production, its cluster does not answer, or LLMKube is not there')
    .action((name: string, options: unknown) => {
      const { anyway } = z.object({ anyway: z.boolean().default(false) }).parse(options)
      const accept = anyway ? contextDoubt.options : []
      return sendPlain(context, options, { name: 'selectContext', context: name, accept })
    })
  const reload = agentVerb('reload', 'read the kubeconfig anew', context).action((options: unknown) =>
    sendPlain(context, options, { name: 'reloadKubeconfig' }),
  )
  return group('context', 'show or choose the Kubernetes context', [list, use, reload])
}

function hostAddressCommand(context: VerbContext): Command {
  const list = agentVerb('list', 'the addresses of this machine', context).action((options: unknown) =>
    run(context, options, async (agent, { json }) => {
      const answer = await agent.query({ name: 'hostAddresses' })
      const rows = answer.addresses.map(({ address, interface: from, inUse, unfit = '' }) => [
        inUse ? '*' : '',
        address,
        from,
        unfit,
      ])
      const table = columns(['', 'ADDRESS', 'INTERFACE', 'NOT CHOSEN BECAUSE'], rows)
      context.io.stdout.write(json ? `${JSON.stringify(answer)}\n` : `${answer.message}\n\n${table}`)
      return 0
    }),
  )
  const set = agentVerb('set', 'publish an address, or "automatic" to have it chosen', context)
    .argument('<address>', 'an IPv4 address of this machine, or automatic')
    .action((address: string, options: unknown) => sendPlain(context, options, { name: 'setHostAddress', address }))
  return group('host-ip', 'show or choose the address that pods are sent to', [list, set])
}

/** A verb that has verbs of its own; the first of them is meant where none is named. */
export function group(name: string, description: string, verbs: readonly [Command, ...Command[]]): Command {
  const [first, ...others] = verbs
  const parent = new Command(name).description(description).addCommand(first, { isDefault: true })
  for (const verb of others) parent.addCommand(verb)
  return parent
}
