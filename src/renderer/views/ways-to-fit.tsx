import type { ServiceView } from '../../contract/service.ts'
import { useWindow } from '../store.ts'
import { fitWords } from '../words/fit.ts'
import { Answer } from './answer.tsx'
import { Card } from './card.tsx'
import { Ways } from './ways.tsx'
import styles from './ways.module.css'

/** What stands in the way of a model that does not fit, what would make it fit, and what came of it. */
export function WaysToFit({ service }: { readonly service: ServiceView }) {
  return (
    <>
      <Answer about={aboutFit(service)} />
      <Misfit service={service} />
    </>
  )
}

/** What was asked here is told here, also when the model fits by then. */
const aboutFit = ({ uid }: ServiceView) => `fit/${uid}`

function Misfit({ service: view }: { readonly service: ServiceView }) {
  const ask = useWindow((store) => store.ask)
  const { namespace, name, contextSize, memory } = view
  const ways = memory?.waysToFit
  if (memory === undefined || ways === undefined || ways.length === 0) return null
  const about = aboutFit(view)
  const service = { namespace, name }
  const commandOf = (tokens: number) => ({ name: 'setContextSize', service, contextSize: tokens }) as const
  const setContext = (tokens: number) => {
    const undo = { name: 'setContextSize', service, contextSize: contextSize ?? null } as const
    void ask(about, commandOf(tokens), { undo })
  }
  return (
    <Card title={fitWords.title}>
      <Ways about={about} ways={ways} context={{ effect: fitWords.contextEffect, onUse: setContext, commandOf }} />
      {memory.place !== undefined && <p className={styles['aside']}>{fitWords.place(memory.place)}</p>}
    </Card>
  )
}
