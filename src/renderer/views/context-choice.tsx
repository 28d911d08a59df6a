import { looksLikeProduction } from '../../contract/cluster.ts'
import { Banner } from '../components/banner.tsx'
import { Button } from '../components/button.tsx'
import { useWindow } from '../store.ts'
import { usePressed } from '../use-pressed.ts'
import { useQuestion } from '../use-question.ts'
import { placeWords } from '../words/places.ts'
import styles from './context-choice.module.css'

interface ContextChoiceProps {
  readonly context: { readonly name: string; readonly server: string }
  /** What the request is named by. */
  readonly about: string
  /** Another cluster is served now, which would be left. */
  readonly leaves: boolean
  /** What the button is called that chooses it, where its text alone does not say that. */
  readonly label?: string
  /** The text of that button. */
  readonly children: string
}

/** Serves the cluster of one context; asked first where that stops something, or reaches into production. */
export function ContextChoice({ context, about, leaves, children, label = children }: ContextChoiceProps) {
  const { name, server } = context
  const ask = useWindow((state) => state.ask)
  const isProduction = looksLikeProduction(name)
  const command = {
    name: 'selectContext',
    context: name,
    ...(isProduction && { accept: ['production' as const] }),
  } as const
  const { pending, disabled } = usePressed(about, command)
  const question = useQuestion()
  const choose = () => {
    question.close()
    void ask(about, command)
  }
  if (!question.isAsked) {
    return (
      <Button
        disabled={disabled}
        pending={pending}
        takesFocus={question.isOver}
        label={label}
        onPress={leaves || isProduction ? question.open : choose}
      >
        {children}
      </Button>
    )
  }
  return (
    <div
      className={styles['question']}
      role="group"
      aria-label={placeWords.serveOne(name)}
      onKeyDown={question.onKeyDown}
    >
      <Banner
        tone={isProduction ? 'warn' : 'note'}
        actions={
          <>
            <Button disabled={disabled} onPress={choose}>
              {placeWords.serveNow}
            </Button>
            <Button takesFocus onPress={question.close}>
              {placeWords.stay}
            </Button>
          </>
        }
      >
        {isProduction && <p>{placeWords.production(name, server)}</p>}
        {leaves && <p>{placeWords.serveSure}</p>}
      </Banner>
    </div>
  )
}
