from unspot.cli import main

main()
